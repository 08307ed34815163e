#include "libdistill/train/skipped_updates.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"

namespace distill {

absl::Status SkippedUpdates::Note(int64_t step, const StepOutcome& outcome) {
  if (outcome.non_finite.empty()) {
    in_a_row_ = 0;
    if (loss_scale_ && outcome.divisor > 0) loss_scale_->NoteGood();
    return absl::OkStatus();
  }
  ++in_a_row_;
  const std::string what = absl::StrCat("step ", step, ": ", outcome.non_finite, " is not finite");
  if (loss_scale_) return Halve(what);
  if (in_a_row_ >= most_in_a_row_) {
    return absl::InternalError(
        absl::StrCat(what, ", for the ", in_a_row_, "th step in a row: lower learning_rate or look at the data"));
  }
  const bool in_part = outcome.updated_buckets > 0;  // without clipping
  if (rank_ == 0) {
    LogWarning(absl::StrCat(what, in_part ? "; the update was made in part" : "; this update is left out"));
  }
  return absl::OkStatus();
}

absl::Status SkippedUpdates::Halve(const std::string& what) {
  if (!loss_scale_->Halve()) {
    return absl::InternalError(absl::StrCat(
        what, ", for the ", in_a_row_, "th step in a row, and the loss scale is down to ", loss_scale_->scale(),
        ": set bf16: true, which has float32's range, lower learning_rate, or look at the data"));
  }
  if (rank_ == 0) {
    LogInfo(absl::StrCat(what, "; this update is left out, and the loss scale is ", loss_scale_->scale(), " now"));
  }
  return absl::OkStatus();
}

void SkippedUpdates::SaveTo(TrainerState& state) const {
  state.skipped_in_a_row = in_a_row_;
  state.loss_scale = loss_scale_ ? loss_scale_->scale() : 0;
  state.good_steps = loss_scale_ ? loss_scale_->good_steps() : 0;
}

void SkippedUpdates::Restore(const TrainerState& state) {
  in_a_row_ = state.skipped_in_a_row;
  if (loss_scale_ && state.loss_scale > 0) loss_scale_->Restore(state.loss_scale, state.good_steps);
}

}  // namespace distill
