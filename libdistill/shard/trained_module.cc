#include "libdistill/shard/trained_module.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/gradients/model_gradients.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

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

absl::Status TrainedModule::FindParameters(const std::map<std::string, int64_t>& rows) {
  DISTILL_RETURN_IF_ERROR(RequireWhole(*module_));
  DISTILL_ASSIGN_OR_RETURN(parameters_, CollectParameters(*module_, rows));
  DISTILL_RETURN_IF_ERROR(AssignGroups(options_.adamw.groups, parameters_));
  for (const TrainedParameter& parameter : parameters_) {
    if (options_.dtype == torch::kFloat16 || parameter.tensor.scalar_type() != torch::kFloat16) continue;
    return absl::InvalidArgumentError(absl::StrCat("parameter ", parameter.name,
                                                   " is in float16, which only fp16: true trains, with a loss scale; "
                                                   "set it, or load the model in float32"));
  }
  return options_.zero_stage == 3 ? FindBlocks() : absl::OkStatus();
}

absl::Status TrainedModule::FindBlocks() {
  const std::vector<GatedModel*> parts = PartsOf<GatedModel>(*module_);
  const auto found = std::find_if(parts.begin(), parts.end(), [](auto* part) { return !part->BlockWeights().empty(); });
  gated_ = found != parts.end() ? *found : nullptr;
  if (gated_ == nullptr) {
    return absl::InvalidArgumentError(
        "zero_stage: 3 shards the weights of a model's blocks, and this module does not tell of any (GatedModel, "
        "nn/weight_gate.h); choose 2, or derive it from GatedModel");
  }
  for (const GatedModel* other : parts) {
    if (other == gated_ || other->block_source() == nullptr) continue;
    return absl::InvalidArgumentError(
        "zero_stage: 3 shards the blocks of one model, and this module has a second one that was loaded without "
        "its blocks: load that one whole (LoadOptions::blocks_later false)");
  }
  block_of_ = BlocksOf(*gated_, parameters_);
  return absl::OkStatus();
}

absl::Status TrainedModule::MakeOptimizer() {
  return options_.zero_stage > 0 ? MakeShardedOptimizer() : MakeWholeOptimizer();
}

// The optimizer first: it keeps the float32 values as masters when the module is narrowed.
absl::Status TrainedModule::MakeWholeOptimizer() {
  return Agree(comm_, CatchTorch([&] {
                 optimizer_ = std::make_unique<AdamW>(parameters_, options_.adamw);
                 NoteFrozen();
                 if (options_.dtype != torch::kFloat32) module_->to(options_.dtype);
                 optimizer_->RenewWorkingCopies();
               }));
}

absl::Status TrainedModule::MakeShardedOptimizer() {
  // Ranks that disagree on the plan would not meet in what follows.
  const ShardPlan plan = ShardedPlan(parameters_, comm_.world_size(), options_.bucket_bytes, block_of_);
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm_, FingerprintOf(plan, parameters_)));
  const bool converts = options_.dtype != torch::kFloat32;
  const torch::Dtype dtype = converts ? options_.dtype : parameters_[0].tensor.scalar_type();
  const bool narrows = dtype != torch::kFloat32;
  DISTILL_RETURN_IF_ERROR(LoadUntrained());
  std::vector<torch::Tensor> masters;  // in float32 these are the parts in use themselves
  ShardedBlocks::Options of_blocks = {.dtype = dtype, .device = options_.device};
  if (gated_ != nullptr) of_blocks.source = gated_->block_source();
  if (narrows) {
    DISTILL_RETURN_IF_ERROR(Agree(
        comm_, CatchTorch([&] { masters = CopyParts(parameters_, plan, comm_.rank(), options_.device, block_of_); })));
    of_blocks.also = [&](size_t i, const torch::Tensor& part) { masters[i] = MasterOf(part, options_.device); };
  }
  DISTILL_ASSIGN_OR_RETURN(flat_,
                           FlatParameters::Create(comm_, parameters_, plan, block_of_,
                                                  gated_ != nullptr ? gated_->BlockWeights().size() : 0, of_blocks));
  if (gated_ != nullptr) gated_->SetBlockSource(nullptr);
  return Agree(comm_, CatchTorch([&] {
                 // What is not trained.
                 NoteFrozen();
                 module_->to(options_.device);
                 if (converts) module_->to(dtype);
                 std::vector<torch::Tensor> in_use;
                 for (size_t i = 0; i < parameters_.size(); ++i) in_use.push_back(flat_->part(i));
                 optimizer_ = std::make_unique<AdamW>(parameters_, options_.adamw, plan, comm_.rank(), in_use,
                                                      narrows ? masters : in_use);
                 if (gated_ != nullptr) gated_->SetWeightGate(flat_->blocks());
               }));
}

void TrainedModule::NoteFrozen() {
  frozen_ = HashOfFrozen(*module_);
  if (frozen_.defined()) frozen_of_checkpoint_ = frozen_.to(options_.device, torch::kUInt8, false, /*copy=*/true);
}

// What of a model without its blocks is not sharded: whole on every rank, wherever it is.
absl::Status TrainedModule::LoadUntrained() {
  if (gated_ == nullptr || gated_->block_source() == nullptr) return absl::OkStatus();
  return OrAbort(comm_, [&]() -> absl::Status {
    for (const auto& weights : gated_->BlockWeights()) {
      for (torch::Tensor weight : weights) {
        if (weight.requires_grad()) continue;
        const torch::Tensor values = torch::empty(weight.sizes(), torch::TensorOptions(weight.scalar_type()));
        DISTILL_RETURN_IF_ERROR(ReadOnRank0(comm_, gated_->block_source(), weight, values));
        weight.set_data(values);
      }
    }
    return absl::OkStatus();
  });
}

absl::Status TrainedModule::MakeReducer(const std::vector<int64_t>& order, bool losses_are_final) {
  DISTILL_ASSIGN_OR_RETURN(reducer_, GradientReducer::Create(comm_, parameters_,
                                                             {.bucket_bytes = options_.bucket_bytes,
                                                              .compression = options_.compression,
                                                              .zero_stage = options_.zero_stage,
                                                              .groups = block_of_,
                                                              .order = order,
                                                              .losses_are_final = losses_are_final,
                                                              .rows_of = TiedTable(*module_, parameters_)}));
  GiveGradientsTo(reducer_, *module_);
  return absl::OkStatus();
}

absl::Status TrainedModule::Explained(const absl::Status& error, const std::optional<MemoryOfFailedPass>& pass) const {
  if (!absl::IsResourceExhausted(error) || parameters_.empty()) return error;
  const bool converts = options_.dtype != torch::kFloat32;
  const TrainingShape shape{.dtype = converts ? options_.dtype : parameters_[0].tensor.scalar_type(),
                            .zero_stage = options_.zero_stage,
                            .world_size = comm_.world_size(),
                            .bucket_bytes = options_.bucket_bytes,
                            .block_of = block_of_};
  TrainingSizes sizes = SizesOfTraining(*module_, parameters_, shape);
  if (options_.besides != nullptr) sizes.besides = options_.besides();
  return WithTrainingSizes(error, sizes, shape, pass);
}

TensorState TrainedModule::Tensors() const {
  TensorState tensors = optimizer_->State();
  for (const auto& item : module_->named_buffers()) {
    tensors.emplace("buffer." + item.key(), SpreadTensor::Whole(item.value()));
  }
  if (frozen_.defined()) tensors.emplace("frozen", SpreadTensor::Whole(frozen_of_checkpoint_));
  return tensors;
}

absl::Status TrainedModule::RequireFinite() const {
  return Agree(comm_, CatchTorch([this]() -> absl::Status {
                 for (const auto& [name, tensor] : Tensors()) {
                   if (!tensor.mine.defined() || !tensor.mine.is_floating_point()) continue;
                   if (!torch::isfinite(tensor.mine).all().item<bool>()) {
                     return absl::InternalError(absl::StrCat(
                         name,
                         " is not finite after the last step, and the model is not saved: lower learning_rate, and "
                         "resume from a checkpoint, or look at the data"));
                   }
                 }
                 return absl::OkStatus();
               }));
}

absl::Status TrainedModule::UseRestoredTensors() {
  const auto check = [this]() -> absl::Status {
    if (!frozen_.defined() || frozen_.equal(frozen_of_checkpoint_.cpu())) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "weights that are not trained are others than when the run began, which a checkpoint does not keep: take the "
        "model from where it came then (student_model), drawn from the same seed if it had no weights");
  };
  DISTILL_RETURN_IF_ERROR(Agree(comm_, CatchTorch(check)));
  DISTILL_RETURN_IF_ERROR(Agree(comm_, CatchTorch([this] { optimizer_->RenewWorkingCopies(); })));
  return flat_ != nullptr ? flat_->GatherAll(comm_) : absl::OkStatus();
}

absl::Status TrainedModule::WithModuleToSave(bool writes_whole,
                                             absl::FunctionRef<absl::Status(ShardedBlocks* in_order)> body) {
  if (blocks() == nullptr || !writes_whole) return body(blocks().get());
  DISTILL_RETURN_IF_ERROR(blocks()->GatherWhole(/*keep=*/comm_.rank() == 0));
  const absl::Status status = body(nullptr);
  blocks()->DropWhole();
  return status;
}

void TrainedModule::Release() {
  reducer_.reset();
  optimizer_.reset();
}

absl::Status TrainedModule::Unshard() {
  if (blocks() == nullptr) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(blocks()->GatherWhole(/*keep=*/true));
  gated_->SetWeightGate(nullptr);
  return absl::OkStatus();
}

}  // namespace distill
