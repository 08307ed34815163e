// What a run has taken of its hosts and of stores behind a network, over all ranks: a part of its last record. Values
// by name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/run/run.h"

namespace distill {

// peak_memory_gib, of the rank that had most; and, where any rank has asked a store behind a network for anything, sums
// over ranks since their processes began: store_read_gib and store_written_gib, store_requests, store_retries, and
// store_stalls, the answers that were cut because nothing came. Every rank must call it; blocks.
[[nodiscard]] absl::StatusOr<std::vector<std::pair<std::string, double>>> CostsOfRanks(RunContext& run);

}  // namespace distill
