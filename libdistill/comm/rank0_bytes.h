// Bytes of any length to rank 0, and from it. Every rank must call these; they block.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"

namespace distill {

// On rank 0 the bytes of each rank, in the order of ranks; elsewhere nothing.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> GatherBytes(Communicator& comm, const std::string& mine);

// Rank 0's bytes, on every rank; those of the others are not looked at.
[[nodiscard]] absl::StatusOr<std::string> BroadcastBytes(Communicator& comm, std::string bytes);

}  // namespace distill
