// Whether every host has the memory that its ranks ask for together: one rank alone cannot see that. Internal to comm/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/memory.h"
#include "libdistill/world/available_memory.h"

namespace distill {

// What one rank asks for, where, and what it sees left there.
struct MemoryRequest {
  std::string host;  // for messages
  int64_t bytes = 0;
  std::vector<MemoryLimit> limits;

  std::string Encode() const;
  [[nodiscard]] static absl::StatusOr<MemoryRequest> Decode(const std::string& text);
};

// `requests`: of every rank, each with what was left before any of them got its memory. Ranks share a host's memory,
// and the limits of the control groups that they are in together, also where each is in a container of its own: what
// MemoryLimit::id says. ResourceExhausted names the first host whose ranks ask for more than is left: how many, for how
// much in all, how much is left and what limits it. Only these requests are added up: parts of a Split, or other
// communicators, that allocate at one time do not see one another.
[[nodiscard]] absl::Status CheckHostMemory(const std::vector<MemoryRequest>& requests);

// Has the kernel give the memory its pages now: from here on they count as used for whoever asks what is left, say for
// another communicator's Allocate. Blocks for about 0.2 s a GiB. ResourceExhausted: the kernel has no page to give; who
// touched the memory then would be ended by a signal. Kernels before 5.14 cannot say so, and are not asked.
[[nodiscard]] absl::Status TakePages(const CommMemory& memory);

}  // namespace distill
