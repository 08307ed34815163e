#include "libdistill/shard/sharded_models.h"

#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/hash_tensor.h"

namespace distill {
namespace {

constexpr int64_t kBucketBytes = 25 << 20;

struct Weights {
  std::vector<TrainedParameter> parameters;
  std::vector<int64_t> block_of;
};

// Shares are each rank's own: of other values on one of them they would make a mixture of two models.
std::string HashOf(const std::vector<TrainedParameter>& parameters) {
  ContentHash hash;
  for (const TrainedParameter& parameter : parameters) HashTensor(parameter.tensor, hash);
  return absl::StrCat("XXH3 ", hash.Hex());
}

absl::StatusOr<Weights> WeightsOfBlocks(const LanguageModel& model) {
  DISTILL_RETURN_IF_ERROR(RequireWhole(model));
  std::map<const c10::TensorImpl*, std::string> names;
  for (const auto& item : model.named_parameters()) names[item.value().unsafeGetTensorImpl()] = item.key();
  Weights weights;
  int64_t block = 0;
  for (const auto& of_block : model.BlockWeights()) {
    for (const torch::Tensor& weight : of_block) {
      weights.parameters.push_back({.name = names[weight.unsafeGetTensorImpl()], .tensor = weight});
      weights.block_of.push_back(block);
    }
    ++block;
  }
  if (weights.parameters.empty()) {
    return absl::InvalidArgumentError("a model that is to be sharded has to tell of its blocks (nn/weight_gate.h)");
  }
  DISTILL_RETURN_IF_ERROR(RequireOneType(weights.parameters));
  return weights;
}

absl::Status NotRun(const std::string& what, const char* how) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the loss has not run ", what,
      ": ranks gather its blocks together, so each has to run it once for every micro-batch with labels, ", how));
}

}  // namespace

ShardPlan PlanOfFrozen(const std::vector<int64_t>& elements, const std::vector<int64_t>& block_of, int shards) {
  std::vector<size_t> order(elements.size());
  std::iota(order.begin(), order.end(), 0);
  return ShardPlan(elements, PlanBuckets(elements, order, kBucketBytes, block_of), shards);
}

absl::StatusOr<std::shared_ptr<ShardedBlocks>> ShardBlocks(Communicator& comm, c10::Device device,
                                                           LanguageModel& model) {
  const auto move = [&] {
    return CatchTorch([&] {
      model.LoadBlocks();  // those of one rank
      for (torch::Tensor& parameter : model.parameters()) parameter.requires_grad_(false);
      model.to(device);
    });
  };
  if (comm.world_size() == 1) {
    DISTILL_RETURN_IF_ERROR(move());
    return std::shared_ptr<ShardedBlocks>();
  }
  absl::StatusOr<Weights> weights = WeightsOfBlocks(model);
  DISTILL_RETURN_IF_ERROR(Agree(comm, weights.status()));
  const ShardPlan plan = PlanOfFrozen(ElementsOf(weights->parameters), weights->block_of, comm.world_size());
  const bool comes_later = model.block_source() != nullptr;
  auto fields = FingerprintOf(plan, weights->parameters);
  const absl::Status hashed = CatchTorch([&] {
    fields.emplace_back("the weights of the blocks", comes_later ? "to be loaded" : HashOf(weights->parameters));
  });
  DISTILL_RETURN_IF_ERROR(Agree(comm, hashed));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm, fields));
  if (comes_later) {
    DISTILL_RETURN_IF_ERROR(OrAbort(comm, [&] { return BroadcastParameters(comm, model); }));
  }
  const torch::Dtype dtype = weights->parameters[0].tensor.scalar_type();
  DISTILL_ASSIGN_OR_RETURN(
      std::shared_ptr<ShardedBlocks> blocks,
      ShardedBlocks::Create(comm, weights->parameters, weights->block_of, model.BlockWeights().size(), plan,
                            {.dtype = dtype, .device = device, .source = model.block_source()}));
  model.SetBlockSource(nullptr);
  DISTILL_RETURN_IF_ERROR(Agree(comm, move()));  // what is left of it
  model.SetWeightGate(blocks);
  return blocks;
}

void ShardedModels::SetErrorContext(const std::function<std::string()>& context) const {
  for (const auto& model : frozen) model->SetErrorContext(context);
  if (trained != nullptr) trained->SetErrorContext(context);
}

void ShardedModels::Skip(bool trains) const {
  for (const auto& model : frozen) model->SkipPass(/*with_gradients=*/false);
  if (trained != nullptr) trained->SkipPass(/*with_gradients=*/trains);
}

absl::Status ShardedModels::RunOnce(bool trains, absl::FunctionRef<absl::Status()> body) const {
  for (const auto& model : frozen) model->StartRound(/*with_gradients=*/false);
  if (trained != nullptr) trained->StartRound(/*with_gradients=*/trains);
  absl::Status status = CatchTorch(body);
  for (size_t i = 0; i < frozen.size(); ++i) {
    if (frozen[i]->EndRound()) continue;
    status.Update(
        NotRun(absl::StrCat("model ", i + 1, " of the ", frozen.size(), " that ShardFrozen sharded"),
               "to its last block; one that it has no use for must not live while Fit or Evaluate is called"));
  }
  if (trained != nullptr && !trained->EndRound()) {
    status.Update(
        NotRun("the module, whose weights zero_stage 3 shards",
               trains ? "forward and backward; choose zero_stage 2 for a loss that does not" : "in an evaluation too"));
  }
  return status;
}

void ShardedModels::Abort(const absl::Status& error) const {
  for (const auto& model : frozen) model->Abort(error);
  if (trained != nullptr) trained->Abort(error);
}

}  // namespace distill
