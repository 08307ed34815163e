// Low-rank adapters (LoRA; Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", arXiv 2106.09685): a
// matrix W stays as it is, and beside it the product of two small ones is trained,
//
//   y = x W^T + scale * (dropout(x) A^T) B^T,   A [r, in],  B [out, r],  scale = alpha / r
//
// which is never made as a matrix of W's size but when it is saved. With PEFT's names, first values and files.
//
//   DISTILL_RETURN_IF_ERROR(AddAdapters({.rank = 16, .targets = "q_proj,v_proj"}, *student));
//   DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, student, options));   // trains A and B alone
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <torch/nn/module.h>

#include "absl/status/status.h"
#include "libdistill/nn/adapter_options.h"

namespace distill {

class LanguageModel;

// What a model that can have adapters derives from.
class HasAdapters {
 public:
  // Empty: it has none.
  const std::optional<AdapterOptions>& adapters() const { return adapters_; }
  void SetAdapters(AdapterOptions options) { adapters_ = std::move(options); }

 private:
  std::optional<AdapterOptions> adapters_;
};

// Puts adapters beside the targets, B zero and A uniform within 1 / sqrt(in) (PEFT's first values), in the matrices'
// type and on their device, and freezes all else. The model computes what it did before. It may wait for its blocks'
// weights. Ranks must call it alike. InvalidArgument: a target that no matrix of the model answers to, its head, or its
// embedding; sizes out of range. FailedPrecondition: it has adapters.
[[nodiscard]] absl::Status AddAdapters(const AdapterOptions& options, LanguageModel& model);

// Inside nn/ only.
// W + scale * B A in float32, where `weight` is a matrix with an adapter; `weight` itself otherwise.
torch::Tensor Merged(const torch::nn::Module& model, const torch::Tensor& weight);
// A and B of all adapters, under the names that PEFT's files have.
torch::OrderedDict<std::string, torch::Tensor> AdapterTensors(const torch::nn::Module& model);
// All other parameters, under their own names.
torch::OrderedDict<std::string, torch::Tensor> TensorsWithoutAdapters(const torch::nn::Module& model);
// PEFT's adapter_config.json.
std::string AdapterConfigJson(const torch::nn::Module& model, const AdapterOptions& options);

}  // namespace distill
