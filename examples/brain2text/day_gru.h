// The network of the public brain-to-text baseline (Card et al. 2024, "An Accurate and Rapidly Calibrating Speech
// Neuroprosthesis"): features are smoothed, each day's go through a linear layer of its own and softsign, bins become
// frames by patches, and a GRU with a learned initial state gives each frame's classes for CTC.
//
//   DayGru model({.n_classes = 41, .sessions = "t15.2023.08.11,t15.2023.08.13"});
//   const auto [log_probabilities, lengths] = model.forward(features, bins, days);
//
// Shapes: B recordings, T bins, F features, P frames, C classes. Parameters: day_weights.N [F, F], day_biases.N [1, F],
// gru.layers.N.*, gru.initial_states.0 [D, H], gru.classifier.*.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/brain2text/model_options.h"
#include "libdistill/nn/gru.h"

namespace distill {

// What the network has behind its day layers.
GruOptions GruOf(const BrainModelOptions& options);

class DayGru : public torch::nn::Module {
 public:
  // As the baseline begins: day layers that change nothing, orthogonal recurrent weights, Xavier's others; drawn with
  // the seed. Throws c10::Error on options that make no model.
  explicit DayGru(const BrainModelOptions& options, uint64_t seed = 10);

  // features float32 [B, T, F], zeros in the padding; lengths (bins) and days int64 [B]. The frames of a recording know
  // nothing of its padding. In training dropout draws from torch's default generator of the device.
  GruCtc::Output forward(const torch::Tensor& features, const torch::Tensor& lengths, const torch::Tensor& days);

  const BrainModelOptions& options() const { return options_; }
  // False: they stay as they are.
  void SetTrainable(bool day_layers, bool gru);

 private:
  torch::Tensor OfDays(const torch::Tensor& features, const torch::Tensor& days) const;
  void Draw(uint64_t seed);

  const BrainModelOptions options_;
  std::vector<float> kernel_;  // empty: features are not smoothed
  std::vector<torch::Tensor> day_weights_, day_biases_;
  std::shared_ptr<GruCtc> gru_;
};

// x [B, T, F] -> [B, P, size * F]: of each frame its bins one after the other.
torch::Tensor PatchesOf(const torch::Tensor& x, int64_t size, int64_t stride);
// The same in tensor operations, which GPUs take and tests compare with.
torch::Tensor PatchesByUnfold(const torch::Tensor& x, int64_t size, int64_t stride);

// model.safetensors and the model's options, into an existing folder of any store.
[[nodiscard]] absl::Status SaveDayGru(const DayGru& model, const std::string& folder);
// NotFound: no such files. InvalidArgument: they do not belong together; names the tensor.
[[nodiscard]] absl::StatusOr<std::shared_ptr<DayGru>> LoadDayGru(const std::string& folder);

}  // namespace distill
