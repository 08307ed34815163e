// The learning rate of a recipe's run, scaled with the global batch as its options ask.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "libdistill/data/shard_options.h"
#include "libdistill/optim/rate_scaling.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

// Rows of a step over all ranks; 0 with max_tokens_per_batch, where lengths decide. InvalidArgument as StepOn.
[[nodiscard]] absl::StatusOr<int64_t> RowsOfStep(const ShardOptions& shard, int world_size);

// Sets trainer.learning_rate, and logs what it is and why. Warns where the rate is raised without a warm-up, with which
// a high rate needs to begin. For Trainer::Create alone: what is kept of the options has the rate as it was given, so
// that the run is repeated alike. InvalidArgument as ScaleLearningRate.
[[nodiscard]] absl::Status ScaleRate(const RateScalingOptions& scaling, const ShardOptions& shard, int world_size,
                                     TrainerOptions& trainer);

}  // namespace distill
