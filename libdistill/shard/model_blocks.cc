#include "libdistill/shard/model_blocks.h"

#include <map>

namespace distill {

void LoadBlocks(torch::nn::Module& module) {
  if (auto* gated = dynamic_cast<GatedModel*>(&module); gated != nullptr) gated->LoadBlocks();
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto* gated = dynamic_cast<GatedModel*>(part.get()); gated != nullptr) gated->LoadBlocks();
  }
}

std::vector<int64_t> BlocksOf(const GatedModel& model, const std::vector<TrainedParameter>& parameters) {
  std::map<const c10::TensorImpl*, int64_t> blocks;
  int64_t block = 0;
  for (const auto& weights : model.BlockWeights()) {
    for (const torch::Tensor& weight : weights) blocks[weight.unsafeGetTensorImpl()] = block;
    ++block;
  }
  std::vector<int64_t> block_of;
  for (const TrainedParameter& parameter : parameters) {
    const auto found = blocks.find(parameter.tensor.unsafeGetTensorImpl());
    block_of.push_back(found == blocks.end() ? -1 : found->second);
  }
  return block_of;
}

absl::Status RequireWhole(const torch::nn::Module& module) {
  const auto is_whole = [](const torch::nn::Module* part) {
    const auto* gated = dynamic_cast<const GatedModel*>(part);
    return gated == nullptr || gated->weight_gate() == nullptr;
  };
  bool all = is_whole(&module);
  for (const auto& part : module.modules(/*include_self=*/false)) all = all && is_whole(part.get());
  if (all) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the module's weights are sharded over the ranks, by ShardFrozen or by a Fit with zero_stage 3 that failed, "
      "or "
      "was to leave them so (whole_after_fit): take one that is whole, loaded anew");
}

}  // namespace distill
