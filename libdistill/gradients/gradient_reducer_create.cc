// How a GradientReducer is made: all ranks have the same plan, or all end here.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/reducer_plan.h"
#include "libdistill/gradients/staging_in_place.h"
#include "libdistill/gradients/staging_in_slots.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

absl::Status CheckReducer(const std::vector<TrainedParameter>& parameters, const GradientReducerOptions& options) {
  if (parameters.empty()) return absl::InvalidArgumentError("a gradient reducer needs parameters");
  if (options.bucket_bytes <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("bucket_bytes: ", options.bucket_bytes, " is not above 0"));
  }
  if (options.zero_stage < 0 || options.zero_stage > 3) {
    return absl::InvalidArgumentError(absl::StrCat("zero_stage: ", options.zero_stage, " is not 0, 1, 2 or 3"));
  }
  if (options.rows_of >= 0 && (options.rows_of >= static_cast<int64_t>(parameters.size()) ||
                               parameters[static_cast<size_t>(options.rows_of)].tensor.dim() != 2)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows_of: ", options.rows_of, " is no matrix of the ", parameters.size(), " parameters"));
  }
  std::vector<int64_t> sorted = options.order;
  std::sort(sorted.begin(), sorted.end());
  bool permutes = sorted.empty() || sorted.size() == parameters.size();
  for (size_t i = 0; permutes && i < sorted.size(); ++i) permutes = sorted[i] == static_cast<int64_t>(i);
  if (permutes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the saved order of gradients is not one of this model's ",
                                                 parameters.size(), " parameters: is the checkpoint another model's?"));
}

// What depends on the stage is chosen here, once.
GradientOrder::Options OrderOptions(const GradientReducerOptions& options) {
  return {.observes = options.zero_stage == 0, .comes_once = options.zero_stage >= 2};
}

std::unique_ptr<GradientStaging> StagingFor(const GradientReducerOptions& options, GradientBuckets& buckets) {
  if (options.zero_stage >= 2) return std::make_unique<StagingInSlots>(buckets);
  return std::make_unique<StagingInPlace>(buckets);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientReducer>> GradientReducer::Create(
    Communicator& comm, const std::vector<TrainedParameter>& parameters, const GradientReducerOptions& options) {
  DISTILL_RETURN_IF_ERROR(Agree(comm, CheckReducer(parameters, options)));
  GradientReducerOptions used = options;
  if (comm.world_size() == 1) used.zero_stage = 0;
  if (used.zero_stage > 0 || !parameters[0].tensor.is_cpu()) used.rows_of = -1;
  const ShardPlan plan = used.zero_stage > 0
                             ? ShardedPlan(parameters, comm.world_size(), options.bucket_bytes, options.groups)
                             : PlanInOrder(parameters, options.order, options.bucket_bytes);
  auto fingerprint = FingerprintOf(plan.plan(), parameters);
  fingerprint.emplace_back("the parameter whose rows' gradients are summed apart", absl::StrCat(used.rows_of));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm, fingerprint));
  DISTILL_ASSIGN_OR_RETURN(GradientBuckets buckets, GradientBuckets::Create(comm, parameters, plan, used.zero_stage));
  std::unique_ptr<GradientReducer> reducer(new GradientReducer(comm, std::move(buckets), used));
  DISTILL_RETURN_IF_ERROR(reducer->PrepareWire(plan));
  absl::StatusOr<std::unique_ptr<AsyncCalls>> thread = AsyncCalls::Start(&comm);
  absl::Status mine = thread.status();
  if (mine.ok()) {
    reducer->thread_ = *std::move(thread);
    mine = CatchTorch([&] {
      reducer->AddHooks();
      return absl::OkStatus();
    });
  }
  DISTILL_RETURN_IF_ERROR(Agree(comm, mine));
  return reducer;
}

GradientReducer::GradientReducer(Communicator& comm, GradientBuckets buckets, const GradientReducerOptions& options)
    : comm_(comm),
      options_(options),
      buckets_(std::move(buckets)),
      wire_(options.compression == GradientCompression::kBf16),
      order_(buckets_.parameters().size(), options.order, OrderOptions(options)),
      staging_(StagingFor(options, buckets_)) {
  if (options.rows_of < 0) return;
  const torch::Tensor& table = buckets_.parameters()[static_cast<size_t>(options.rows_of)].tensor;
  rows_.emplace(table.size(0), table.size(1));
}

absl::Status GradientReducer::PrepareWire(const ShardPlan& plan) {
  return wire_.Prepare(comm_, buckets_.parameters()[0].tensor.device(), plan);
}

}  // namespace distill
