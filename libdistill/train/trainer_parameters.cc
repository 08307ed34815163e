// What a Trainer trains: the module's parameters, sharded or whole, their optimizer, and the reducer of their
// gradients.
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/model_gradients.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/gradients/reducer_plan.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/shard/model_blocks.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/fingerprint.h"
#include "libdistill/train/trainer_impl.h"

namespace distill {
namespace {

AdamWOptions AdamWOptionsOf(const TrainerOptions& options) {
  return {.beta1 = options.adam_beta1,
          .beta2 = options.adam_beta2,
          .epsilon = options.adam_epsilon,
          .weight_decay = options.weight_decay};
}

// In float32, in memory of its own.
torch::Tensor MasterOf(const torch::Tensor& part, c10::Device device) {
  return part.to(device, torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
}

// Masters of this rank's parts of what is of no block; of the rest later, undefined.
std::vector<torch::Tensor> CopyParts(const std::vector<TrainedParameter>& parameters, const ShardPlan& plan, int rank,
                                     c10::Device device, const std::vector<int64_t>& block_of) {
  std::vector<torch::Tensor> parts(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!block_of.empty() && block_of[i] >= 0) continue;
    const ShardPlan::Part part = plan.OfParameter(i, rank);
    parts[i] = MasterOf(parameters[i].tensor.detach().reshape({-1}).narrow(0, part.begin, part.count), device);
  }
  return parts;
}

}  // namespace

absl::Status Trainer::Impl::FindParameters() {
  DISTILL_RETURN_IF_ERROR(RequireWhole(*module));
  DISTILL_ASSIGN_OR_RETURN(parameters, CollectParameters(*module, task->TrainedRows(*module)));
  for (const TrainedParameter& parameter : parameters) {
    if (options.fp16 || parameter.tensor.scalar_type() != torch::kFloat16) continue;
    return absl::InvalidArgumentError(absl::StrCat("parameter ", parameter.name,
                                                   " is in float16, which only fp16: true trains, with a loss scale; "
                                                   "set it, or load the model in float32"));
  }
  gated = nullptr;
  block_of.clear();
  return zero_stage() == 3 ? FindBlocks() : absl::OkStatus();
}

absl::Status Trainer::Impl::FindBlocks() {
  for (const auto& part : module->modules()) {
    gated = dynamic_cast<GatedModel*>(part.get());
    if (gated != nullptr && !gated->BlockWeights().empty()) break;
    gated = nullptr;
  }
  if (gated == nullptr) {
    return absl::InvalidArgumentError(
        "zero_stage: 3 shards the weights of a model's blocks, and this module does not tell of any (GatedModel, "
        "nn/weight_gate.h); choose 2, or derive it from GatedModel");
  }
  for (const auto& part : module->modules()) {
    const auto* other = dynamic_cast<const GatedModel*>(part.get());
    if (other == nullptr || other == gated || other->block_source() == nullptr) continue;
    return absl::InvalidArgumentError(
        "zero_stage: 3 shards the blocks of one model, and this module has a second one that was loaded without "
        "its blocks: load that one whole (LoadOptions::blocks_later false)");
  }
  block_of = BlocksOf(*gated, parameters);
  return absl::OkStatus();
}

// The optimizer first: it keeps the float32 values as masters when the module is narrowed.
absl::Status Trainer::Impl::MakeOptimizer() {
  const bool narrows = WorkingType(options, run.device()) != torch::kFloat32;
  return Agree(comm(), CatchTorch([&] {
                 optimizer = std::make_unique<AdamW>(parameters, AdamWOptionsOf(options));
                 if (narrows) module->to(WorkingType(options, run.device()));
                 optimizer->RenewWorkingCopies();
                 return absl::OkStatus();
               }));
}

absl::Status Trainer::Impl::MakeShardedOptimizer() {
  // Ranks that disagree on the plan would not meet in what follows.
  const ShardPlan plan = ShardedPlan(parameters, comm().world_size(), options.bucket_bytes, block_of);
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm(), FingerprintOf(plan.plan(), parameters)));
  const bool converts = WorkingType(options, run.device()) != torch::kFloat32;
  const torch::Dtype dtype = converts ? WorkingType(options, run.device()) : parameters[0].tensor.scalar_type();
  const bool narrows = dtype != torch::kFloat32;
  DISTILL_RETURN_IF_ERROR(LoadUntrained());
  std::vector<torch::Tensor> masters;  // in float32 these are the parts in use themselves
  ShardedBlocks::Options of_blocks = {.dtype = dtype, .device = run.device()};
  if (gated != nullptr) of_blocks.source = gated->block_source();
  if (narrows) {
    DISTILL_RETURN_IF_ERROR(Agree(comm(), CatchTorch([&] {
                                    masters = CopyParts(parameters, plan, comm().rank(), run.device(), block_of);
                                    return absl::OkStatus();
                                  })));
    of_blocks.also = [&](size_t i, const torch::Tensor& part) { masters[i] = MasterOf(part, run.device()); };
  }
  DISTILL_ASSIGN_OR_RETURN(flat,
                           FlatParameters::Create(comm(), parameters, plan, block_of,
                                                  gated != nullptr ? gated->BlockWeights().size() : 0, of_blocks));
  if (gated != nullptr) gated->SetBlockSource(nullptr);
  return Agree(comm(), CatchTorch([&] {
                 // What is not trained.
                 module->to(run.device());
                 if (converts) module->to(dtype);
                 std::vector<torch::Tensor> in_use;
                 for (size_t i = 0; i < parameters.size(); ++i) in_use.push_back(flat->part(i));
                 optimizer = std::make_unique<AdamW>(parameters, AdamWOptionsOf(options), plan, comm().rank(), in_use,
                                                     narrows ? masters : in_use);
                 if (gated != nullptr) gated->SetWeightGate(flat->blocks());
                 return absl::OkStatus();
               }));
}

// What of a model without its blocks is not sharded: whole on every rank, wherever it is.
absl::Status Trainer::Impl::LoadUntrained() {
  if (gated == nullptr || gated->block_source() == nullptr) return absl::OkStatus();
  return OrAbort(comm(), [&]() -> absl::Status {
    for (const auto& weights : gated->BlockWeights()) {
      for (torch::Tensor weight : weights) {
        if (weight.requires_grad()) continue;
        const torch::Tensor values = torch::empty(weight.sizes(), torch::TensorOptions(weight.scalar_type()));
        DISTILL_RETURN_IF_ERROR(ReadOnRank0(comm(), *gated->block_source(), weight, values));
        weight.set_data(values);
      }
    }
    return absl::OkStatus();
  });
}

ShardedModels Trainer::Impl::Sharded() {
  return {.trained = flat != nullptr ? flat->blocks() : nullptr, .frozen = run.frozen()};
}

absl::Status Trainer::Impl::Unshard() {
  const std::shared_ptr<ShardedBlocks> blocks = Sharded().trained;
  if (blocks == nullptr || !options.whole_after_fit) return absl::OkStatus();
  const absl::Status whole = blocks->GatherWhole(/*keep=*/true);
  if (whole.ok()) gated->SetWeightGate(nullptr);
  // Where files were asked for they are on the disk by now.
  if (!absl::IsResourceExhausted(whole) || options.output_dir.empty()) return whole;
  if (run.rank() == 0) LogWarning(absl::StrCat("the module is left without its blocks' weights: ", whole.message()));
  return absl::OkStatus();
}

absl::Status Trainer::Impl::MakeReducer() {
  reducer.reset();
  DISTILL_ASSIGN_OR_RETURN(reducer, GradientReducer::Create(comm(), parameters,
                                                            {.bucket_bytes = options.bucket_bytes,
                                                             .compression = options.gradient_compression,
                                                             .zero_stage = zero_stage(),
                                                             .groups = block_of,
                                                             .order = state.gradient_order,
                                                             .losses_are_final = task->losses_are_final(),
                                                             .rows_of = TiedTable(*module, parameters)}));
  GiveGradientsTo(reducer, *module);
  return absl::OkStatus();
}

}  // namespace distill
