// How much slower training is with its recordings in a store than on a local disk.
#pragma once

#include "absl/status/status.h"
#include "examples/brain2text/options.h"
#include "libdistill/run/run.h"

namespace distill {

// Every rank must call it; blocks. Trains new models on the same first flags.compare_batches batches from
// flags.compare_dataset_dir and from options.dataset_dir, each twice and one after the other, and prints on rank 0 the
// faster time of each, by how much the second is longer, and how long steps waited for data. Internal: other losses
// from the one than from the other.
[[nodiscard]] absl::Status ComparePlaces(RunContext& run, const Brain2TextOptions& options,
                                         const Brain2TextFlags& flags);

}  // namespace distill
