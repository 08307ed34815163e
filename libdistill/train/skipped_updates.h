// What a run does about steps with a loss or a gradient that is not finite, whose update is left out: it tells, halves
// the loss scale of float16, and ends where there are too many in a row. The same on every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "libdistill/gradients/loss_scale.h"
#include "libdistill/proto/checkpoint_messages.h"
#include "libdistill/train/train_step.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

class SkippedUpdates {
 public:
  SkippedUpdates(const TrainerOptions& options, int rank) : rank_(rank), most_in_a_row_(options.max_non_finite_steps) {
    if (options.fp16) loss_scale_.emplace(options.initial_loss_scale, options.loss_scale_window);
  }

  // Null without fp16.
  LossScale* loss_scale() { return loss_scale_.has_value() ? &*loss_scale_ : nullptr; }
  // After each step. Internal: max_non_finite_steps in a row, or a loss scale that cannot be halved.
  [[nodiscard]] absl::Status Note(int64_t step, const StepOutcome& outcome);

  // Whether the last update was left out: the model may be on a way to nowhere, and is not saved then.
  bool last_was_skipped() const { return in_a_row_ > 0; }

  void SaveTo(TrainerState& state) const;
  void Restore(const TrainerState& state);

 private:
  absl::Status Halve(const std::string& what);

  const int rank_;
  const int64_t most_in_a_row_;
  std::optional<LossScale> loss_scale_;
  int64_t in_a_row_ = 0;
};

}  // namespace distill
