#include "libdistill/gradients/gradient_reducer.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {
namespace {

// Finish says which rank was lost, and in which call.
constexpr char kLost[] = "gradients can no longer be summed over ranks";

}  // namespace

class GradientReducer::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(GradientReducer& reducer, size_t i) : reducer_(reducer), i_(i) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    reducer_.OnGradient(i_);
    return outputs;
  }

 private:
  GradientReducer& reducer_;
  const size_t i_;
};

GradientReducer::~GradientReducer() {
  thread_.reset();
  for (Gradient& gradient : gradients_) {
    if (gradient.accumulator == nullptr) continue;
    gradient.accumulator->del_post_hook(gradient.hook);
    gradient.tensor.mutable_grad() = torch::Tensor();
  }
}

void GradientReducer::AddHooks() {
  for (size_t i = 0; i < gradients_.size(); ++i) {
    Gradient& gradient = gradients_[i];
    gradient.tensor = buckets_.parameters()[i].tensor;
    gradient.accumulator = torch::autograd::impl::grad_accumulator(gradient.tensor);
    gradient.hook = gradient.accumulator->add_post_hook(std::make_unique<Hook>(*this, i));
  }
}

void GradientReducer::Lay(const ShardPlan& plan) {
  buckets_.Lay(plan);
  for (size_t i = 0; i < gradients_.size(); ++i) gradients_[i].bucket = plan.bucket_of(i);
}

void GradientReducer::StartStep(bool adds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (next_plan_.has_value()) Lay(*std::exchange(next_plan_, std::nullopt));
  adds_ = adds;
  incomplete_.assign(buckets_.num_buckets(), 0);
  for (Gradient& gradient : gradients_) {
    gradient.tensor.mutable_grad() = torch::Tensor();
    gradient.filled = false;
    gradient.came = nullptr;
    gradient.fires = 0;
    TakeBack(gradient);
    ++incomplete_[gradient.bucket];
  }
  fired_.clear();
  calls_.clear();
  rows_call_.reset();
  if (rows_.has_value()) rows_->Clear();
  in_step_ = true;
}

torch::Tensor GradientReducer::Lend(const torch::Tensor& parameter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!in_step_ || options_.zero_stage >= 2 || !parameter.is_contiguous()) return {};
  const size_t i = IndexOf(parameter);
  if (i == gradients_.size() || gradients_[i].filled || !gradients_[i].lent.expired()) return {};
  const torch::Tensor part = buckets_.gradient(i);
  // A storage of its own: autograd adds to a gradient in place where nobody else has its storage.
  const torch::Tensor lent = torch::from_blob(
      part.data_ptr(), part.sizes(), /*deleter=*/[part](void*) {}, part.options());
  gradients_[i].lent = c10::weak_intrusive_ptr<c10::TensorImpl>(lent.getIntrusivePtr());
  return lent;
}

size_t GradientReducer::IndexOf(const torch::Tensor& parameter) const {
  const auto found = std::find_if(gradients_.begin(), gradients_.end(),
                                  [&](const Gradient& gradient) { return gradient.tensor.is_same(parameter); });
  return static_cast<size_t>(found - gradients_.begin());
}

bool GradientReducer::TakesWide(const torch::Tensor& parameter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return in_step_ && options_.zero_stage < 2 && parameter.scalar_type() != torch::kFloat32 &&
         IndexOf(parameter) < gradients_.size() && torch::autograd::impl::hooks(parameter).empty();
}

// The hook comes after it, from autograd's node of the parameter, which has waited for this part as for any other.
void GradientReducer::AddWide(const torch::Tensor& parameter, const torch::Tensor& gradient) {
  const torch::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t i = IndexOf(parameter);
  if (!in_step_ || i == gradients_.size()) {
    throw std::runtime_error("a gradient came outside of a step: make the backward pass before Finish");
  }
  if (lost_) throw std::runtime_error(kLost);
  RefuseLate(i);
  Put(i, gradient);
  const c10::Device device = gradient.device();
  if (!device.is_cpu()) gradients_[i].came = std::make_shared<c10::Event>(RecordEvent(device));
}

void GradientReducer::TakeBack(Gradient& gradient) {
  if (const auto lent = gradient.lent.lock()) lent->bump_version();
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
  Gradient& gradient = gradients_[i];
  const bool takes_turns = options_.zero_stage >= 2;
  if (!takes_turns) Take(i);
  if (!syncs_) return;
  if (++gradient.fires == 1) fired_.push_back(i);
  if (!learned_ || gradient.fires != std::max<int64_t>(1, gradient.expected)) return;
  // A part that comes late must not be added to what is on its way.
  if (!takes_turns) gradient.tensor.mutable_grad() = torch::Tensor();
  --incomplete_[gradient.bucket];
  LaunchComplete();
}

void GradientReducer::RefuseLate(size_t i) const {
  if (gradients_[i].bucket >= calls_.size()) return;
  throw std::runtime_error(absl::StrCat(
      "the gradient of parameter ", buckets_.parameters()[i].name, " was complete after ",
      std::max<int64_t>(1, gradients_[i].expected),
      " of its parts in the steps before, and was on its way to the other ranks when another part came: use the "
      "parameter in the same way in every step, or in one backward pass only"));
}

// Moves what autograd left into the bucket. Autograd gives the first gradient away, so this one copy is all that it
// costs, none where it was made in memory that was lent, and adds later float32 ones in place; bfloat16 ones are added
// here, so that accumulation rounds only once.
void GradientReducer::Take(size_t i) {
  Gradient& gradient = gradients_[i];
  torch::Tensor& grad = gradient.tensor.mutable_grad();
  torch::Tensor part = buckets_.gradient(i);
  if (!grad.defined() || grad.is_same(part)) return;
  Put(i, grad.layout() == torch::kStrided ? grad : grad.to_dense());
  const bool stays = gradient.tensor.scalar_type() == torch::kFloat32 && options_.zero_stage < 2;
  grad = stays ? part : torch::Tensor();
}

void GradientReducer::Put(size_t i, const torch::Tensor& part) {
  Gradient& gradient = gradients_[i];
  torch::Tensor place = buckets_.gradient(i);
  TakeBack(gradient);
  const bool is_there = part.data_ptr() == place.data_ptr();  // in what was lent
  if (gradient.filled) {
    place.add_(part);
  } else if (!is_there) {
    place.copy_(part);
  }
  gradient.filled = true;
}

void GradientReducer::LaunchComplete() {
  while (calls_.size() < incomplete_.size() && incomplete_[calls_.size()] == 0) Launch();
}

void GradientReducer::FillInTurn(size_t b) {
  // Finish says what became of that one.
  if (const int64_t before = buckets_.bucket(b).before; before >= 0) calls_[before].Wait().IgnoreError();
  if (!buckets_.bucket(b).has_place) GiveMemory(b);
  buckets_.ClearGaps(b);
  FillUp(b);
}

// Where a gradient has become its bucket's memory it need not be moved there.
void GradientReducer::GiveMemory(size_t b) {
  Gradient& first = gradients_[buckets_.bucket(b).parameters[0]];
  torch::Tensor& grad = first.tensor.mutable_grad();
  buckets_.GiveMemory(b, grad);
  if (!grad.defined() || grad.layout() != torch::kStrided) return;
  first.filled = grad.data_ptr() == buckets_.bucket(b).values.data_ptr();
  if (first.filled) grad = torch::Tensor();
}

void GradientReducer::Launch() {
  const size_t b = calls_.size();
  if (options_.zero_stage >= 2) FillInTurn(b);
  std::shared_ptr<c10::Event> ready;
  if (const c10::Device device = buckets_.bucket(b).values.device(); !device.is_cpu()) {
    const c10::Stream here = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    for (const size_t i : buckets_.bucket(b).parameters) {
      if (const auto came = std::exchange(gradients_[i].came, nullptr)) came->block(here);
    }
    ready = std::make_shared<c10::Event>(RecordEvent(device));
  }
  calls_.push_back(thread_->Run([this, b, ready](Communicator& comm) { return Reduce(comm, b, ready.get()); }));
}

absl::Status GradientReducer::Reduce(Communicator& comm, size_t b, const c10::Event* ready) {
  const absl::Status summed = OrAbort(comm, [&] {
    const absl::Status status = wire_.Sum(comm, buckets_.bucket(b), ready, adds_);
    if (!buckets_.bucket(b).has_place) buckets_.TakeMemory(b);
    return status;
  });
  if (!summed.ok()) lost_ = true;
  return summed;
}

absl::Status GradientReducer::ReduceRows(Communicator& comm) {
  return OrAbort(comm, [&] {
    const absl::Status status =
        rows_->Sum(comm, [&](float* values, int64_t count) { return wire_.SumValues(comm, values, count); });
    if (!status.ok()) return status;
    const auto i = static_cast<size_t>(options_.rows_of);
    GradientBucket& bucket = buckets_.bucket(gradients_[i].bucket);
    const double squares = bucket.sum_of_squares + rows_->AddTo(static_cast<float*>(buckets_.gradient(i).data_ptr()));
    bucket.sum_of_squares = squares < 0 ? 0 : squares;  // rounding; what is not finite stays so
    bucket.summed += rows_->size() * buckets_.gradient(i).size(1);
    return absl::OkStatus();
  });
}

// Of the gradients that this step did not make.
void GradientReducer::FillUp(size_t b) {
  for (const size_t i : buckets_.bucket(b).parameters) {
    Take(i);
    if (gradients_[i].filled) continue;
    TakeBack(gradients_[i]);
    torch::Tensor part = buckets_.gradient(i);
    part.zero_();
  }
}

absl::Status GradientReducer::EndStep(absl::Status& mine) {
  const std::lock_guard<std::mutex> lock(mutex_);
  in_step_ = false;
  stats_.early_buckets = static_cast<int64_t>(calls_.size());
  while (calls_.size() < buckets_.num_buckets()) {
    mine.Update(CatchTorch([&] {
      if (options_.zero_stage < 2) FillUp(calls_.size());
      return absl::OkStatus();
    }));
    Launch();
  }
  if (rows_.has_value()) rows_call_ = thread_->Run([this](Communicator& comm) { return ReduceRows(comm); });
  // What a failed backward pass leaves says nothing about the next one.
  learned_ = learned_ || (mine.ok() && !fired_.empty());
  for (Gradient& gradient : gradients_) gradient.expected = std::max(gradient.expected, gradient.fires);
  return absl::OkStatus();
}

absl::Status GradientReducer::Finish(absl::Status& mine, const std::function<void(size_t bucket)>& on_bucket) {
  const torch::NoGradGuard no_grad;
  absl::Status status = CatchTorch([&] { return EndStep(mine); });
  if (!status.ok()) comm_.Abort(status);  // the others must not wait for a part that never comes
  stats_.waited = absl::ZeroDuration();
  const auto await = [&](AsyncCall& call) {
    const absl::Time start = absl::Now();
    status.Update(call.Wait());
    stats_.waited += absl::Now() - start;
    return status.ok() && on_bucket;
  };
  const size_t with_rows =
      rows_call_.has_value() ? gradients_[static_cast<size_t>(options_.rows_of)].bucket : calls_.size();
  for (size_t b = 0; b < calls_.size(); ++b) {
    if (await(calls_[b]) && b != with_rows) on_bucket(b);
  }
  if (rows_call_.has_value() && await(*rows_call_)) on_bucket(with_rows);
  DISTILL_RETURN_IF_ERROR(status);
  const bool has_all = options_.zero_stage == 0;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const bool is_view = has_all && gradients_[i].tensor.scalar_type() == torch::kFloat32;
    gradients_[i].tensor.mutable_grad() = is_view ? buckets_.gradient(i) : torch::Tensor();
  }
  return has_all && order_.empty() ? AgreeOnOrder() : absl::OkStatus();
}

// Rank 0's order, with what it did not use at the end; nothing yet where it has seen no backward pass.
absl::Status GradientReducer::AgreeOnOrder() {
  std::vector<int64_t> order(gradients_.size(), -1);
  if (comm_.rank() == 0 && !fired_.empty()) {
    order.assign(fired_.begin(), fired_.end());
    for (size_t i = gradients_.size(); i-- > 0;) {
      if (gradients_[i].fires == 0) order.push_back(static_cast<int64_t>(i));
    }
  }
  DISTILL_RETURN_IF_ERROR(comm_.Broadcast(order.data(), static_cast<int64_t>(order.size()), DType::kInt64, /*root=*/0));
  if (order[0] < 0) return absl::OkStatus();
  order_ = std::move(order);
  next_plan_ = PlanInOrder(buckets_.parameters(), order_, options_.bucket_bytes);
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm_, FingerprintOf(next_plan_->plan(), buckets_.parameters())));
  return PrepareWire(*next_plan_);
}

}  // namespace distill
