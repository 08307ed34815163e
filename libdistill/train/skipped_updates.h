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
  SkippedUpdates(const TrainerOptions& options, int rank) : rank_(rank) {
    if (options.fp16) loss_scale_.emplace(options.initial_loss_scale, options.loss_scale_window);
  }

  // Null without fp16.
  LossScale* loss_scale() { return loss_scale_.has_value() ? &*loss_scale_ : nullptr; }
  // After each step. Internal: five in a row, or a loss scale that cannot be halved.
  [[nodiscard]] absl::Status Note(int64_t step, const StepOutcome& outcome);

  void SaveTo(TrainerState& state) const;
  void Restore(const TrainerState& state);

 private:
  absl::Status Halve(const std::string& what);

  const int rank_;
  std::optional<LossScale> loss_scale_;
  int64_t in_a_row_ = 0;
};

}  // namespace distill
