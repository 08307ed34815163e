#include "libdistill/nn/gru.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils/rnn.h>

#include <cmath>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/nn/dropout.h"
#include "libdistill/nn/frame_packing.h"
#include "libdistill/nn/gru_recurrence.h"
#include "libdistill/tensor/random_state.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::nn::utils::rnn::PackedSequence;

void CheckOptions(const GruOptions& options) {
  TORCH_CHECK(options.features > 0 && options.hidden > 0 && options.layers > 0 && options.classes > 0, "a GRU of ",
              options.features, " features, ", options.hidden, " hidden numbers, ", options.layers, " layers and ",
              options.classes, " classes: each must be above 0");
  TORCH_CHECK(options.dropout >= 0 && options.dropout <= 1, "a GRU's dropout must lie within 0 and 1, not ",
              options.dropout);
}

void CheckInput(const Tensor& features, const Tensor& lengths, const GruOptions& options) {
  TORCH_CHECK(features.dim() == 3 && features.size(2) == options.features, "features ", features.sizes(),
              " must be [B, T, ", options.features, "]");
  TORCH_CHECK(lengths.dim() == 1 && lengths.scalar_type() == torch::kInt64 && lengths.size(0) == features.size(0),
              "lengths ", lengths.sizes(), " of ", lengths.scalar_type(), " must be int64 [", features.size(0), "]");
  const bool fits = (lengths >= 1).logical_and(lengths <= features.size(1)).all().item<bool>();
  TORCH_CHECK(fits, "lengths must lie within 1 and the ", features.size(1), " frames of the features");
}

}  // namespace

struct GruCtc::Layers {
  Layers(const GruOptions& options, GruCtc& root) {
    const int64_t directions = options.is_bidirectional ? 2 : 1;
    for (int64_t i = 0; i < options.layers; ++i) {
      const int64_t inputs = i == 0 ? options.features : options.hidden * directions;
      gru.emplace_back(torch::nn::GRUOptions(inputs, options.hidden).bidirectional(options.is_bidirectional));
      list->push_back(gru.back().ptr());
      const bool shares = i > 0 && options.shares_initial_state;
      starts.push_back(
          shares ? starts[0] : states->register_parameter(absl::StrCat(i), torch::zeros({directions, options.hidden})));
    }
    root.register_module("layers", list);
    root.register_module("initial_states", states);
    classifier = root.register_module("classifier", torch::nn::Linear(options.hidden * directions, options.classes));
  }

  // PyTorch's way.
  void Draw(const GruOptions& options, uint64_t seed) {
    const torch::NoGradGuard no_grad;
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const auto draw = [&](const std::vector<Tensor>& weights, int64_t inputs) {
      const double range = 1 / std::sqrt(static_cast<double>(inputs));
      for (Tensor weight : weights) weight.uniform_(-range, range, generator);
    };
    draw(list->parameters(), options.hidden);
    draw(classifier->parameters(), options.hidden * starts[0].size(0));
  }

  // On CPUs; GPUs have cuDNN's.
  bool Sweeps() const { return starts[0].is_cpu() && starts[0].scalar_type() != torch::kFloat64; }

  // As torch's own: frames [N, F] -> states [N, D * H]. `start`: [D, B, H].
  Tensor RunLayer(size_t layer, const Tensor& frames, const Tensor& batch_sizes, const Tensor& start) const {
    const auto weights = gru[layer]->named_parameters(/*recurse=*/false);
    std::vector<Tensor> directions;
    for (int64_t direction = 0; direction < start.size(0); ++direction) {
      const std::string suffix = direction == 0 ? "_l0" : "_l0_reverse";
      directions.push_back(
          RunGru({.of_frames = at::linear(frames, weights["weight_ih" + suffix], weights["bias_ih" + suffix]),
                  .weight = weights["weight_hh" + suffix],
                  .bias = weights["bias_hh" + suffix],
                  .start = start[direction],
                  .batch_sizes = batch_sizes,
                  .is_reverse = direction == 1}));
    }
    return directions.size() == 1 ? directions[0] : at::cat(directions, 1);
  }

  Tensor StartOf(size_t layer, int64_t rows) const {
    return starts[layer].unsqueeze(1).expand({-1, rows, -1}).contiguous();
  }

  // Logits [T, B, C], in sweeps.
  Tensor SweptLogits(const Tensor& features, const Tensor& lengths, double dropout) {
    const FramePacking packing = PackingOf(lengths);
    Tensor frames = PackFrames(features, packing);
    for (size_t i = 0; i < gru.size(); ++i) {
      if (i > 0) frames = Dropout(frames, dropout);
      frames = RunLayer(i, frames, packing.batch_sizes, StartOf(i, features.size(0)));
    }
    return UnpackFrames(classifier->forward(frames), packing, features.size(1));
  }

  // The same by torch's own layers.
  Tensor Logits(const Tensor& features, const Tensor& lengths, double dropout) {
    PackedSequence packed = torch::nn::utils::rnn::pack_padded_sequence(features, lengths, /*batch_first=*/true,
                                                                        /*enforce_sorted=*/false);
    for (size_t i = 0; i < gru.size(); ++i) {
      // Between layers here, and not in torch's own: on GPUs that draws from a state which nobody can save.
      if (i > 0 && dropout > 0) {
        const Tensor kept = Dropout(packed.data(), dropout);
        packed = PackedSequence(kept, packed.batch_sizes(), packed.sorted_indices(), packed.unsorted_indices());
      }
      // cuDNN has a backward pass only so. Nothing else depends on it: torch's layers drop nothing here, and nobody
      // asks them for their mode.
      gru[i]->train();
      packed = std::get<0>(gru[i]->forward_with_packed_input(packed, StartOf(i, features.size(0))));
    }
    const Tensor padded = std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(
        packed, /*batch_first=*/false, /*padding_value=*/0.0, /*total_length=*/features.size(1)));
    return classifier->forward(padded);
  }

  const std::shared_ptr<torch::nn::ModuleListImpl> list = std::make_shared<torch::nn::ModuleListImpl>();
  const std::shared_ptr<torch::nn::Module> states = std::make_shared<torch::nn::Module>();
  std::vector<torch::nn::GRU> gru;
  std::vector<Tensor> starts;  // [D, H]
  torch::nn::Linear classifier = nullptr;
};

GruCtc::GruCtc(const GruOptions& options, uint64_t seed) : options_(options) {
  CheckOptions(options);
  // torch's modules draw their weights as they are made, and nobody's draws are to be others for it.
  const RandomStateScope as_before(torch::kCPU, RandomState(torch::kCPU));
  layers_ = std::make_unique<Layers>(options, *this);
  layers_->Draw(options, seed);
}

GruCtc::~GruCtc() = default;

GruCtc::Output GruCtc::forward(const Tensor& features, const Tensor& lengths) {
  const Tensor frames = lengths.cpu();
  CheckInput(features, frames, options_);
  const double dropout = is_training() ? options_.dropout : 0;
  const Tensor logits =
      layers_->Sweeps() ? layers_->SweptLogits(features, frames, dropout) : layers_->Logits(features, frames, dropout);
  // Three digits of bfloat16 are too few for the sums of CTC.
  const torch::Dtype type = logits.element_size() < 4 ? torch::kFloat32 : logits.scalar_type();
  return {.log_probabilities = at::log_softmax(logits, -1, type), .lengths = frames};
}

}  // namespace distill
