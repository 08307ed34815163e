#include "libdistill/gradients/gradient_order.h"

#include <algorithm>

#include "libdistill/core/status_macros.h"

namespace distill {

void GradientOrder::StartStep(const ShardPlan& plan) {
  incomplete_.assign(plan.num_buckets(), 0);
  for (size_t i = 0; i < gradients_.size(); ++i) {
    gradients_[i].bucket = plan.bucket_of(i);
    gradients_[i].fires = 0;
    ++incomplete_[gradients_[i].bucket];
  }
  fired_.clear();
}

int64_t GradientOrder::parts(size_t i) const { return std::max<int64_t>(1, gradients_[i].expected); }

bool GradientOrder::OnGradient(size_t i) {
  if (++gradients_[i].fires == 1) fired_.push_back(i);
  if (!knows_parts_ || gradients_[i].fires != parts(i)) return false;
  --incomplete_[gradients_[i].bucket];
  return true;
}

void GradientOrder::EndStep(bool is_good) {
  knows_parts_ = knows_parts_ || (is_good && !fired_.empty());
  for (Gradient& gradient : gradients_) gradient.expected = std::max(gradient.expected, gradient.fires);
}

absl::Status GradientOrder::Agree(Communicator& comm) {
  std::vector<int64_t> order(gradients_.size(), -1);
  if (comm.rank() == 0 && !fired_.empty()) {
    order.assign(fired_.begin(), fired_.end());
    for (size_t i = gradients_.size(); i-- > 0;) {
      if (gradients_[i].fires == 0) order.push_back(static_cast<int64_t>(i));
    }
  }
  DISTILL_RETURN_IF_ERROR(comm.Broadcast(order.data(), static_cast<int64_t>(order.size()), DType::kInt64, /*root=*/0));
  if (order[0] >= 0) order_ = std::move(order);
  return absl::OkStatus();
}

}  // namespace distill
