#include "examples/brain2text/day_gru.h"

#include <ATen/ops/baddbmm.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/init.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "examples/brain2text/smoothing.h"
#include "examples/brain2text/softsign.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/dropout.h"
#include "libdistill/nn/weight_gate.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/random_state.h"

namespace distill {
namespace {

constexpr char kWeightsFile[] = "model.safetensors";

absl::Status LoadInto(torch::nn::Module& model, const SafetensorsFile& file) {
  const auto parameters = model.named_parameters();
  for (const auto& item : parameters) {
    const TensorView* found = file.Find(item.key());
    if (found == nullptr || found->shape != item.value().sizes().vec()) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), ": ", item.key(), " is ", found == nullptr ? "missing" : ShapeToString(found->shape), ", and ",
          kModelOptionsFile, " beside it asks for ", ShapeToString(item.value().sizes())));
    }
    DISTILL_ASSIGN_OR_RETURN(const TensorView loaded, file.Load(item.key()));
    CopyFromView(loaded, item.value().detach());
  }
  if (parameters.size() == file.tensors().size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file.path(), " has ", file.tensors().size(), " tensors, and ",
                                                 kModelOptionsFile, " beside it asks for ", parameters.size()));
}

}  // namespace

GruOptions GruOf(const BrainModelOptions& options) {
  return {.features = options.n_input_features * std::max<int64_t>(1, options.patch_size),
          .hidden = options.n_units,
          .layers = options.n_layers,
          .classes = options.n_classes,
          .dropout = options.rnn_dropout,
          .is_bidirectional = options.bidirectional,
          .shares_initial_state = true};
}

DayGru::DayGru(const BrainModelOptions& options, uint64_t seed) : options_(options) {
  const std::vector<std::string> sessions = OrThrow(SessionsOf(options));
  TORCH_CHECK(options.patch_size == 0 || options.patch_stride > 0, "patch_stride must be above 0");
  if (options.smooth_data) {
    auto kernel = SmoothingKernel(options.smooth_kernel_std, options.smooth_kernel_size);
    TORCH_CHECK(kernel.ok(), kernel.status().message());
    kernel_ = *std::move(kernel);
  }
  const auto weights = register_module("day_weights", std::make_shared<torch::nn::Module>());
  const auto biases = register_module("day_biases", std::make_shared<torch::nn::Module>());
  for (size_t day = 0; day < sessions.size(); ++day) {
    const int64_t features = options.n_input_features;
    day_weights_.push_back(weights->register_parameter(absl::StrCat(day), torch::eye(features)));
    day_biases_.push_back(biases->register_parameter(absl::StrCat(day), torch::zeros({1, features})));
  }
  gru_ = register_module("gru", std::make_shared<GruCtc>(GruOf(options), seed));
  Draw(seed);
}

void DayGru::Draw(uint64_t seed) {
  const RandomStateScope as_before(torch::kCPU, RandomState(torch::kCPU));
  torch::manual_seed(seed);
  for (auto& item : gru_->named_parameters()) {
    if (absl::StrContains(item.key(), "weight_hh")) torch::nn::init::orthogonal_(item.value());
    const bool is_matrix = absl::StrContains(item.key(), "weight_ih") || item.key() == "classifier.weight" ||
                           absl::StrContains(item.key(), "initial_states");
    if (is_matrix) torch::nn::init::xavier_uniform_(item.value());
  }
}

void DayGru::SetTrainable(bool day_layers, bool gru) {
  for (auto& weight : day_weights_) weight.set_requires_grad(day_layers);
  for (auto& bias : day_biases_) bias.set_requires_grad(day_layers);
  for (auto& item : gru_->named_parameters()) {
    if (absl::StartsWith(item.key(), "layers.")) item.value().set_requires_grad(gru);
  }
}

torch::Tensor DayGru::OfDays(const torch::Tensor& features, const torch::Tensor& days) const {
  std::vector<torch::Tensor> weights, biases;
  const torch::Tensor on_host = days.cpu();
  for (int64_t row = 0; row < on_host.size(0); ++row) {
    const auto day = static_cast<size_t>(on_host[row].item<int64_t>());
    TORCH_CHECK(day < day_weights_.size(), "a recording of day ", day, ", and there are ", day_weights_.size());
    weights.push_back(day_weights_[day]);
    biases.push_back(day_biases_[day]);
  }
  return at::baddbmm(torch::stack(biases), features, torch::stack(weights));
}

torch::Tensor PatchesByUnfold(const torch::Tensor& x, int64_t size, int64_t stride) {
  const torch::Tensor windows = x.unfold(1, size, stride);  // [B, P, F, size]
  return windows.transpose(2, 3).reshape({x.size(0), windows.size(1), size * x.size(2)});
}

namespace {

// As PatchesByUnfold, whose gradient on CPUs comes back one number at a time; here frame by frame.
struct PatchesFunction : torch::autograd::Function<PatchesFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, const torch::Tensor& x, int64_t size,
                               int64_t stride) {
    ctx->saved_data["stride"] = stride;
    ctx->saved_data["shape"] = x.sizes();
    return PatchesByUnfold(x, size, stride);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    const auto shape = ctx->saved_data["shape"].toIntVector();
    const int64_t stride = ctx->saved_data["stride"].toInt(), frames = gradients[0].size(1);
    const torch::Tensor apart = gradients[0].reshape({shape[0], frames, -1, shape[2]});  // [B, P, size, F]
    const torch::Tensor sum = torch::zeros(shape, apart.options());
    for (int64_t frame = 0; frame < frames; ++frame) {
      sum.narrow(1, frame * stride, apart.size(2)).add_(apart.select(1, frame));
    }
    return {sum, torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor PatchesOf(const torch::Tensor& x, int64_t size, int64_t stride) {
  return x.is_cpu() ? PatchesFunction::apply(x, size, stride) : PatchesByUnfold(x, size, stride);
}

GruCtc::Output DayGru::forward(const torch::Tensor& features, const torch::Tensor& lengths, const torch::Tensor& days) {
  torch::Tensor x = kernel_.empty() ? features : SmoothAlongTime(features, kernel_);
  x = Softsign(OfDays(x.to(day_weights_[0].scalar_type()), days));
  x = Dropout(x, is_training() ? options_.input_layer_dropout : 0);
  if (options_.patch_size == 0) return gru_->forward(x, lengths);
  const torch::Tensor frames =
      lengths.cpu().sub(options_.patch_size).div(options_.patch_stride, /*rounding_mode=*/"floor").add(1);
  return gru_->forward(PatchesOf(x, options_.patch_size, options_.patch_stride), frames);
}

absl::Status SaveDayGru(const DayGru& model, const std::string& folder) {
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(folder, kModelOptionsFile), ModelOptionsToYaml(model.options())));
  return WriteInOrder(model, {model.named_parameters()}, JoinPath(folder, kWeightsFile),
                      [](torch::Dtype type) { return SavedType(type); });
}

absl::StatusOr<std::shared_ptr<DayGru>> LoadDayGru(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const BrainModelOptions options, ReadModelOptions(folder));
  DISTILL_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(JoinPath(folder, kWeightsFile)));
  std::shared_ptr<DayGru> model;
  DISTILL_RETURN_IF_ERROR(CatchTorch([&] {
    model = std::make_shared<DayGru>(options);
    return LoadInto(*model, file);
  }));
  return model;
}

}  // namespace distill
