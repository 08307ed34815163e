// Hugging Face folders of every model family: weights by name into modules, modules into folders; inside nn/ only.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/load_options.h"
#include "libdistill/nn/model_content.h"
#include "libdistill/nn/quantised_weights.h"
#include "libdistill/store/weights_folder.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {

// What files may hold beside the parameters under their own names.
struct WeightNames {
  std::string model_type;                                  // for messages
  std::map<std::string, std::string> tied = {};            // further names of a parameter's values
  std::function<bool(const std::string&)> is_passed_over;  // tensors that change nothing that is computed here
  // What else a parameter may be called, the preferred name first.
  std::function<std::vector<std::string>(const std::string&)> others = nullptr;
  // Modules, by path, whose parameters are drawn where the files have none of them.
  struct Drawn {
    std::vector<std::string> paths = {};
    double range = 0.02;
    uint64_t seed = 0;
  };
  Drawn drawn = {};
};

// Names, shapes and types of the files against those of a model, before any memory is taken for weights: `shapes` may
// lie on the device "meta". InvalidArgument: file, tensor and both shapes are named.
[[nodiscard]] absl::Status CheckWeights(const torch::nn::Module& shapes, const WeightsFolder& weights,
                                        const WeightNames& names, const std::string& folder);
// After CheckWeights. A model made without its blocks' weights gets the source that brings them out of the files.
// Returns a hash of what it copied.
std::string CopyWeights(const WeightsFolder& weights, const WeightNames& names, torch::nn::Module& model);
// After CopyWeights: what the files do not have and names.drawn allows. A log line says what that was.
void DrawMissing(const WeightsFolder& weights, const WeightNames& names, torch::nn::Module& model,
                 const std::string& folder);
// As Module::to, for one that may wait for its blocks' weights.
void Convert(torch::nn::Module& model, const LoadOptions& options);

// A model with the folder's weights. make(options, blocks_later) gives a shared_ptr to one whose weights hold anything
// yet; with `blocks_later`, as LoadOptions has it, those of blocks have no memory.
template <typename Make>
auto LoadModel(const std::string& folder, const WeightNames& names, const LoadOptions& options, const Make& make)
    -> absl::StatusOr<decltype(make(torch::TensorOptions(), false))> {
  DISTILL_ASSIGN_OR_RETURN(const WeightsFolder weights, OpenWeights(folder, options));
  decltype(make(torch::TensorOptions(), false)) model;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(CheckWeights(*make(torch::TensorOptions(torch::kMeta), false), weights, names, folder));
    model = make(torch::TensorOptions(options.dtype).device(options.device), options.blocks_later);
    DISTILL_ASSIGN_OR_RETURN(ModelContent content, ReadContent(folder));
    content.emplace_back("hash of the weights", CopyWeights(weights, names, *model));
    model->SetSource(folder, std::move(content));
    DrawMissing(weights, names, *model, folder);
    if (options.dropout) model->EnableDropout();
    return absl::OkStatus();
  });
  if (!status.ok()) return Annotate(status, absl::StrCat("loading the model of ", folder));
  return model;
}

// A model with random weights. make() gives a shared_ptr to one in float32 on the CPU, all of it drawn, or, as
// LoadOptions::blocks_later asks, what is of no block.
template <typename Make>
auto CreateModel(const std::string& folder, const LoadOptions& options, const Make& make)
    -> absl::StatusOr<decltype(make())> {
  decltype(make()) model;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    model = make();
    Convert(*model, options);
    DISTILL_ASSIGN_OR_RETURN(ModelContent content, ReadContent(folder));
    model->SetSource(folder, std::move(content));
    if (options.dropout) model->EnableDropout();
    return absl::OkStatus();
  });
  if (!status.ok()) return Annotate(status, absl::StrCat("making a model of the shape of ", folder));
  return model;
}

// config.json (the given one with the dtype that was saved), model.safetensors, copies of the tokenizer files of
// `tokenizer_folder` (none when empty), and the model's own files (HasContent::SaveFile). Of a model with adapters the
// first two have them merged, or are adapter_config.json and adapter_model.safetensors instead (nn/adapters.h). Blocks
// until all are synced.
[[nodiscard]] absl::Status SaveModel(const torch::nn::Module& model, const std::string& config_json,
                                     const std::string& folder, const std::string& tokenizer_folder,
                                     torch::Dtype dtype);

}  // namespace distill
