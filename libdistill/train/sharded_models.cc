#include "libdistill/train/sharded_models.h"

#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/gradient_buckets.h"
#include "libdistill/train/gradient_plan.h"

namespace distill {
namespace {

constexpr int64_t kBucketBytes = 25 << 20;

struct Weights {
  std::vector<TrainedParameter> parameters;
  std::vector<torch::Tensor> tensors;
  std::vector<int64_t> block_of;
};

absl::StatusOr<Weights> WeightsOfBlocks(const LanguageModel& model) {
  std::map<const c10::TensorImpl*, std::string> names;
  for (const auto& item : model.named_parameters()) names[item.value().unsafeGetTensorImpl()] = item.key();
  Weights weights;
  int64_t block = 0;
  for (const auto& of_block : model.BlockWeights()) {
    for (const torch::Tensor& weight : of_block) {
      weights.parameters.push_back({.name = names[weight.unsafeGetTensorImpl()], .tensor = weight});
      weights.tensors.push_back(weight);
      weights.block_of.push_back(block);
    }
    ++block;
  }
  if (weights.tensors.empty()) {
    return absl::InvalidArgumentError("a model that is to be sharded has to tell of its blocks (nn/weight_gate.h)");
  }
  DISTILL_RETURN_IF_ERROR(RequireOneType(weights.parameters));
  return weights;
}

}  // namespace

absl::Status ShardFrozen(RunContext& run, LanguageModel& model) {
  Communicator& comm = run.communicator();
  const auto move = [&] {
    return CatchTorch([&] {
      for (torch::Tensor& parameter : model.parameters()) parameter.requires_grad_(false);
      model.to(run.device());
      return absl::OkStatus();
    });
  };
  if (comm.world_size() == 1) return move();
  absl::StatusOr<Weights> weights = WeightsOfBlocks(model);
  DISTILL_RETURN_IF_ERROR(Agree(comm, weights.status()));
  const std::vector<int64_t> elements = ElementsOf(weights->parameters);
  std::vector<size_t> order(elements.size());
  std::iota(order.begin(), order.end(), 0);
  const ShardPlan plan(elements, PlanBucketsOfGroups(elements, order, weights->block_of, kBucketBytes),
                       comm.world_size());
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm, FingerprintOf(plan.plan(), weights->parameters)));
  const torch::Dtype dtype = weights->tensors[0].scalar_type();
  DISTILL_ASSIGN_OR_RETURN(
      std::shared_ptr<ShardedBlocks> blocks,
      ShardedBlocks::Create(comm, weights->tensors, weights->block_of, plan, {.dtype = dtype, .device = run.device()}));
  DISTILL_RETURN_IF_ERROR(Agree(comm, move()));  // what is left of it
  model.SetWeightGate(blocks);
  run.AddFrozen(std::move(blocks));
  return absl::OkStatus();
}

absl::Status RequireWhole(const torch::nn::Module& module) {
  for (const auto& part : module.modules()) {
    const auto* gated = dynamic_cast<const GatedModel*>(part.get());
    if (gated == nullptr || gated->weight_gate() == nullptr) continue;
    return absl::FailedPreconditionError(
        "the module's weights are shared out over the ranks, by ShardFrozen or by a Fit that failed: train one that is "
        "whole, loaded anew");
  }
  return absl::OkStatus();
}

void ShardedModels::Skip(bool trains) const {
  for (const auto& model : frozen) model->SkipPass(/*with_gradients=*/false);
  if (trained != nullptr) trained->SkipPass(/*with_gradients=*/trains);
}

void ShardedModels::Abort(const absl::Status& error) const {
  for (const auto& model : frozen) model->Abort(error);
  if (trained != nullptr) trained->Abort(error);
}

}  // namespace distill
