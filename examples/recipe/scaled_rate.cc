#include "examples/recipe/scaled_rate.h"

#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::StatusOr<int64_t> RowsOfStep(const ShardOptions& shard, int world_size) {
  if (shard.max_tokens_per_batch > 0) return 0;
  DISTILL_ASSIGN_OR_RETURN(const StepShape step, StepOn(shard, world_size));
  return step.rank_rows * world_size;
}

absl::Status ScaleRate(const RateScalingOptions& scaling, const ShardOptions& shard, int world_size,
                       TrainerOptions& trainer) {
  DISTILL_ASSIGN_OR_RETURN(const int64_t rows, RowsOfStep(shard, world_size));
  DISTILL_ASSIGN_OR_RETURN(const ScaledRate scaled, ScaleLearningRate(scaling, trainer.learning_rate, rows));
  if (scaled.text.empty()) return absl::OkStatus();
  LogInfo(scaled.text);
  const bool warms_up = trainer.warmup_steps > 0 || trainer.warmup_ratio > 0;
  if (scaled.learning_rate > trainer.learning_rate && !warms_up) {
    LogWarning("learning_rate is raised without a warm-up, and training may diverge: set warmup_ratio, to 0.1 say");
  }
  trainer.learning_rate = scaled.learning_rate;
  return absl::OkStatus();
}

}  // namespace distill
