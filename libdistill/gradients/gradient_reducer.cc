#include "libdistill/gradients/gradient_reducer.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

// Finish says which rank was lost, and in which call.
constexpr char kLost[] = "gradients can no longer be summed over ranks";

absl::Status CheckOptions(const std::vector<TrainedParameter>& parameters, const GradientReducerOptions& options) {
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
  std::vector<int64_t> indices(parameters.size()), sorted = options.order;
  std::iota(indices.begin(), indices.end(), 0);
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty() || sorted == indices) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the saved order of gradients is not one of this model's ",
                                                 parameters.size(), " parameters: is the checkpoint another model's?"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientReducer>> GradientReducer::Create(
    Communicator& comm, const std::vector<TrainedParameter>& parameters, const GradientReducerOptions& options) {
  DISTILL_RETURN_IF_ERROR(Agree(comm, CheckOptions(parameters, options)));
  GradientReducerOptions used = options;
  if (comm.world_size() == 1) used.zero_stage = 0;
  if (used.zero_stage > 0 || !parameters[0].tensor.is_cpu()) used.rows_of = -1;
  const ShardPlan plan = used.zero_stage > 0
                             ? ShardedPlan(parameters, comm.world_size(), options.bucket_bytes, options.groups)
                             : PlanInOrder(parameters, options.order, options.bucket_bytes);
  auto fingerprint = FingerprintOf(plan, parameters);
  fingerprint.emplace_back("the parameter whose rows' gradients are summed apart", absl::StrCat(used.rows_of));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm, fingerprint));
  DISTILL_ASSIGN_OR_RETURN(GradientBuckets buckets, GradientBuckets::Create(comm, parameters, plan, used.zero_stage));
  std::unique_ptr<GradientReducer> reducer(new GradientReducer(comm, std::move(buckets), used));
  DISTILL_RETURN_IF_ERROR(reducer->wire_.Prepare(comm, parameters[0].tensor.device(), plan));
  absl::StatusOr<std::unique_ptr<AsyncCalls>> thread = AsyncCalls::Start(&comm);
  absl::Status mine = thread.status();
  if (mine.ok()) {
    reducer->thread_ = *std::move(thread);
    mine = CatchTorch([&] {
      reducer->stream_ = std::make_shared<const HeldStream>(parameters[0].tensor.device());
      reducer->AddHooks();
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
      order_(buckets_.parameters().size(), options.order,
             {.observes = options.zero_stage == 0, .comes_once = options.zero_stage >= 2}),
      staging_(MakeStaging(options.zero_stage, buckets_)) {
  if (options.rows_of < 0) return;
  const torch::Tensor& table = buckets_.parameters()[static_cast<size_t>(options.rows_of)].tensor;
  rows_.emplace(table.size(0), table.size(1));
}

GradientReducer::~GradientReducer() {
  thread_.reset();
  for (Hooked& hooked : hooked_) {
    hooked.accumulator->del_post_hook(hooked.hook);
    hooked.parameter.mutable_grad() = torch::Tensor();
  }
}

void GradientReducer::AddHooks() {
  for (const TrainedParameter& parameter : buckets_.parameters()) {
    const auto hook = [this, i = hooked_.size()](const torch::autograd::variable_list& outputs, const auto&) {
      OnGradient(i);
      return outputs;
    };
    Hooked hooked{parameter.tensor, torch::autograd::impl::grad_accumulator(parameter.tensor)};
    hooked.hook = hooked.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(hook));
    hooked_.push_back(std::move(hooked));
  }
}

void GradientReducer::StartStep(bool adds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (next_plan_.has_value()) buckets_.Lay(*std::exchange(next_plan_, std::nullopt));
  adds_ = adds;
  for (Hooked& hooked : hooked_) hooked.parameter.mutable_grad() = torch::Tensor();
  order_.StartStep(buckets_.plan());
  staging_->StartStep();
  calls_.clear();
  rows_call_.reset();
  if (rows_.has_value()) rows_->Clear();
  in_step_ = true;
}

torch::Tensor GradientReducer::Borrow(const torch::Tensor& parameter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t i = IndexOf(parameter);
  if (!in_step_ || i == hooked_.size() || !parameter.is_contiguous()) return {};
  return staging_->Borrow(i);
}

torch::Tensor GradientReducer::BorrowSum(const torch::Tensor& parameter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t i = IndexOf(parameter);
  if (!in_step_ || !options_.losses_are_final || i == hooked_.size() || !parameter.is_contiguous()) return {};
  if (HasLeft(i) || !torch::autograd::impl::hooks(parameter).empty()) return {};
  return staging_->BorrowSum(i);
}

size_t GradientReducer::IndexOf(const torch::Tensor& parameter) const {
  const auto found = std::find_if(hooked_.begin(), hooked_.end(),
                                  [&](const Hooked& hooked) { return hooked.parameter.is_same(parameter); });
  return static_cast<size_t>(found - hooked_.begin());
}

bool GradientReducer::TakesWide(const torch::Tensor& parameter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return in_step_ && staging_->has_places() && parameter.scalar_type() != torch::kFloat32 &&
         IndexOf(parameter) < hooked_.size() && torch::autograd::impl::hooks(parameter).empty();
}

// The hook comes after it, from autograd's node of the parameter, which has waited for this part as for any other.
void GradientReducer::AddWide(const torch::Tensor& parameter, const torch::Tensor& gradient) {
  const torch::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t i = IndexOf(parameter);
  if (!in_step_ || i == hooked_.size()) {
    throw std::runtime_error("a gradient came outside of a step: make the backward pass before Finish");
  }
  if (lost_) throw std::runtime_error(kLost);
  RefuseLate(i);
  staging_->AddWide(i, gradient);
}

bool GradientReducer::TakesRows(const torch::Tensor& parameter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // A user's hooks are to see the whole gradient.
  return in_step_ && rows_.has_value() && torch::autograd::impl::hooks(parameter).empty() &&
         buckets_.parameters()[static_cast<size_t>(options_.rows_of)].tensor.is_same(parameter);
}

void GradientReducer::AddRows(const torch::Tensor& ids, const torch::Tensor& gradients) {
  const torch::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!in_step_ || !rows_.has_value()) {
    throw std::runtime_error(
        "gradients of looked-up rows came after the step in which they were looked up: make the backward pass before "
        "Finish");
  }
  if (lost_) throw std::runtime_error(kLost);
  rows_->Add(ids, gradients);
}

void GradientReducer::OnGradient(size_t i) {
  const torch::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!in_step_) return;
  if (lost_) throw std::runtime_error(kLost);
  RefuseLate(i);
  staging_->OnGradient(i);
  if (!syncs_ || !order_.OnGradient(i)) return;
  staging_->OnComplete(i);
  while (calls_.size() < buckets_.num_buckets() && order_.is_complete(calls_.size())) Launch();
}

void GradientReducer::RefuseLate(size_t i) const {
  if (!HasLeft(i)) return;
  throw std::runtime_error(absl::StrCat(
      "the gradient of parameter ", buckets_.parameters()[i].name, " was complete after ", order_.parts(i),
      " of its parts in the steps before, and was on its way to the other ranks when another part came: use the "
      "parameter in the same way in every step, or in one backward pass only"));
}

void GradientReducer::Launch() {
  const size_t b = calls_.size();
  // Until the memory is free that this bucket shares. Finish says what became of that one.
  if (const int64_t before = buckets_.bucket(b).before; before >= 0) calls_[before].Wait().IgnoreError();
  staging_->OnLaunch(b);
  const auto sum = BehindStream(stream_, [this, b](Communicator& comm) {
    const absl::Status status = wire_.Sum(comm, buckets_.bucket(b), adds_);
    if (!buckets_.bucket(b).has_place) buckets_.TakeMemory(b);
    return status;
  });
  calls_.push_back(thread_->Run([this, sum](Communicator& comm) {
    const absl::Status summed = sum(comm);
    if (!summed.ok()) lost_ = true;
    return summed;
  }));
}

absl::Status GradientReducer::ReduceRows(Communicator& comm) {
  return OrAbort(comm, [&] {
    const absl::Status status =
        rows_->Sum(comm, [&](float* values, int64_t count) { return wire_.SumValues(comm, values, count); });
    if (!status.ok()) return status;
    const auto i = static_cast<size_t>(options_.rows_of);
    GradientBucket& bucket = buckets_.bucket(buckets_.plan().bucket_of(i));
    const double squares = bucket.sum_of_squares + rows_->AddTo(static_cast<float*>(buckets_.gradient(i).data_ptr()));
    bucket.sum_of_squares = squares < 0 ? 0 : squares;  // rounding; what is not finite stays so
    bucket.summed += rows_->size() * buckets_.gradient(i).size(1);
    return absl::OkStatus();
  });
}

void GradientReducer::EndStep(absl::Status& mine) {
  const std::lock_guard<std::mutex> lock(mutex_);
  in_step_ = false;
  stats_.early_buckets = static_cast<int64_t>(calls_.size());
  while (calls_.size() < buckets_.num_buckets()) {
    mine.Update(staging_->FillUp(calls_.size()));
    Launch();
  }
  if (rows_.has_value()) rows_call_ = thread_->Run([this](Communicator& comm) { return ReduceRows(comm); });
  order_.EndStep(mine.ok());
}

absl::Status GradientReducer::AwaitBuckets(absl::Status status, const std::function<void(size_t bucket)>& on_bucket) {
  stats_.waited = absl::ZeroDuration();
  const auto await = [&](AsyncCall& call) {
    const absl::Time start = absl::Now();
    status.Update(call.Wait());
    stats_.waited += absl::Now() - start;
    return status.ok() && on_bucket;
  };
  const size_t with_rows =
      rows_call_.has_value() ? buckets_.plan().bucket_of(static_cast<size_t>(options_.rows_of)) : calls_.size();
  for (size_t b = 0; b < calls_.size(); ++b) {
    if (await(calls_[b]) && b != with_rows) on_bucket(b);
  }
  if (rows_call_.has_value() && await(*rows_call_)) on_bucket(with_rows);
  return status;
}

absl::Status GradientReducer::Finish(absl::Status& mine, const std::function<void(size_t bucket)>& on_bucket) {
  const torch::NoGradGuard no_grad;
  const absl::Status ended = CatchTorch([&] { return EndStep(mine); });
  if (!ended.ok()) comm_.Abort(ended);  // the others must not wait for a part that never comes
  DISTILL_RETURN_IF_ERROR(AwaitBuckets(ended, on_bucket));
  const bool has_all = buckets_.plan().shards() == 1;
  for (size_t i = 0; i < hooked_.size(); ++i) {
    const bool is_view = has_all && hooked_[i].parameter.scalar_type() == torch::kFloat32;
    hooked_[i].parameter.mutable_grad() = is_view ? buckets_.gradient(i) : torch::Tensor();
  }
  if (!order_.asks()) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(order_.Agree(comm_));
  if (order_.order().empty()) return absl::OkStatus();
  next_plan_ = PlanInOrder(buckets_.parameters(), order_.order(), options_.bucket_bytes);
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm_, FingerprintOf(*next_plan_, buckets_.parameters())));
  return wire_.Prepare(comm_, buckets_.parameters()[0].tensor.device(), *next_plan_);
}

}  // namespace distill
