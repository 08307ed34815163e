// A recurrent network over float features that gives, frame by frame, log-probabilities for CTC (Graves et al. 2006,
// "Connectionist Temporal Classification"): gated recurrent units (Cho et al. 2014), layer on layer.
//
//   GruCtc model({.features = 40, .hidden = 256, .layers = 3, .classes = 41, .dropout = 0.2});
//   const auto [log_probabilities, lengths] = model.forward(features, frames);
//   at::ctc_loss(log_probabilities, phonemes, lengths, phoneme_counts);
#pragma once

#include <cstdint>
#include <memory>

#include <torch/nn/module.h>

namespace distill {

struct GruOptions {
  int64_t features = 0;
  int64_t hidden = 0;
  int64_t layers = 1;
  int64_t classes = 0;  // with CTC's blank
  double dropout = 0;   // of what one layer gives the next, in training
  bool is_bidirectional = false;
  bool shares_initial_state = false;  // one for all layers, that of the first
};

// Shapes: B rows, T frames, F features, H hidden, D directions, C classes. Parameters: layers.N.* as torch::nn::GRU
// calls those of its first layer, layers.N's initial state initial_states.N [D, H] (initial_states.0 of all, where they
// share it), and classifier.*.
class GruCtc : public torch::nn::Module {
 public:
  // Weights drawn as PyTorch does, uniform within 1 / sqrt(H), initial states 0; equal seeds give equal weights. Throws
  // c10::Error on sizes below 1 and a dropout outside of 0 and 1.
  explicit GruCtc(const GruOptions& options, uint64_t seed = 42);
  ~GruCtc() override;

  struct Output {
    torch::Tensor log_probabilities;  // [T, B, C], in float32 of narrower weights; beyond a row's frames anything
    torch::Tensor lengths;            // int64 [B] on the CPU: the frames of each row
  };
  // features [B, T, F], lengths int64 [B], each within 1 and T: how many frames of a row are no padding, of which the
  // others know nothing. In training dropout draws from torch's default generator of the device.
  Output forward(const torch::Tensor& features, const torch::Tensor& lengths);
  const GruOptions& options() const { return options_; }

 private:
  struct Layers;
  const GruOptions options_;
  std::unique_ptr<Layers> layers_;
};

}  // namespace distill
