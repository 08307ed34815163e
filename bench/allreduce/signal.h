// The least that ranks of one host can do to agree on anything: each tells all others something and hears from all.
#pragma once

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"

namespace distill {

// Seconds of one such exchange through a cache line of each rank in shared memory, without any library: the best of
// several hundred. No all-reduce can be faster. Every rank must call it; ranks must share one host.
[[nodiscard]] absl::StatusOr<double> SignalSeconds(Communicator& comm);

}  // namespace distill
