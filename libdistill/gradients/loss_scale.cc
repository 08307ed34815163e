#include "libdistill/gradients/loss_scale.h"

#include <algorithm>
#include <bit>

namespace distill {

void LossScale::StartStep(int64_t loss_tokens) {
  const auto tokens = static_cast<uint64_t>(std::max<int64_t>(1, loss_tokens));
  factor_ = scale_ / static_cast<double>(std::bit_ceil(tokens));
}

void LossScale::NoteGood() {
  if (++good_steps_ < window_) return;
  good_steps_ = 0;
  scale_ = std::min(2 * scale_, kLargest);
}

bool LossScale::Halve() {
  good_steps_ = 0;
  if (scale_ <= kSmallest) return false;
  scale_ = std::max(scale_ / 2, kSmallest);
  return true;
}

void LossScale::Restore(double scale, int64_t good_steps) {
  scale_ = scale;
  good_steps_ = good_steps;
}

}  // namespace distill
