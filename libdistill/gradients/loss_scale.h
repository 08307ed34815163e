// The loss scale of float16 training (Micikevicius et al. 2018, "Mixed Precision Training", section 3.2), which follows
// the gradients as torch's GradScaler does: half of it after a step in which one was not finite, double after many in a
// row in which all were.
//
//   scale.StartStep(loss_tokens);             // the backward passes of the step begin with scale.factor()
//   good ? scale.NoteGood() : scale.Halve();  // once the gradients are summed: the same on every rank
//
// As elsewhere, the scale is that of a mean loss; losses are sums here, so what they are multiplied by is the scale
// over the step's tokens. These are rounded up to a power of two: multiplying by one changes no bit but those that a
// value too small or too large for float16 loses.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace distill {

class LossScale {
 public:
  static constexpr double kSmallest = 1, kLargest = 1ll << 40;

  // `window`: steps in a row after which it doubles.
  LossScale(double initial, int64_t window) : scale_(initial), window_(window) {}

  // Over all ranks and micro-batches.
  void StartStep(int64_t loss_tokens) {
    const auto tokens = static_cast<uint64_t>(std::max<int64_t>(1, loss_tokens));
    factor_ = scale_ / static_cast<double>(std::bit_ceil(tokens));
  }
  // What losses, sums over tokens, are multiplied by in this step, and so are their gradients.
  double factor() const { return factor_; }

  void NoteGood() {
    if (++good_steps_ < window_) return;
    good_steps_ = 0;
    scale_ = std::min(2 * scale_, kLargest);
  }
  // False: it was kSmallest already, and stays.
  [[nodiscard]] bool Halve() {
    good_steps_ = 0;
    if (scale_ <= kSmallest) return false;
    scale_ = std::max(scale_ / 2, kSmallest);
    return true;
  }

  // What a checkpoint keeps.
  double scale() const { return scale_; }
  int64_t good_steps() const { return good_steps_; }  // since it changed
  void Restore(double scale, int64_t good_steps) {
    scale_ = scale;
    good_steps_ = good_steps;
  }

 private:
  double scale_;
  int64_t window_;
  int64_t good_steps_ = 0;
  double factor_ = 1;
};

}  // namespace distill
