// Descriptors (open files and connections): how many this process may have, and whether that is enough for what it is
// about to open. Rank 0 of a meeting asks before the ranks meet, so that a limit that is too low is one error on every
// rank and not a connection that fails somewhere.
//
// Only the soft limit is raised: by PrepareProcess (world/process.h), which a rank begins with, as far as the hard one
// allows, at most 2^20; in a process that did not call it, as far as a meeting needs. Children inherit it; programs
// that use select() cannot handle a descriptor from 1024 on, but everything is opened close-on-exec here, so a child
// starts with few and meets one only if it opens so many itself.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

// For what a rank opens later: files, shared memory, devices, the fabric's own connections. (Over tcp the fabric has
// one for each rank that this one talks to, which are not counted here: their errors name the limit, too.)
constexpr int64_t kDescriptorReserve = 32;
constexpr size_t kFewestGuests = 8;
constexpr size_t kMostGuests = 64;

// What rank 0 of a meeting opens.
struct MeetingDescriptors {
  int64_t ranks = 0;  // one connection each
  size_t guests = 0;  // connections of those who have not proved themselves, at one time
};

// Raises the soft limit as far as this meeting needs, and returns how many connections it may have. Ranks, a few guests
// and the reserve are needed; more guests are good where there is room. ResourceExhausted: the hard limit does not
// suffice; names what is needed, both limits, `host` and what to do.
[[nodiscard]] absl::StatusOr<MeetingDescriptors> PrepareDescriptors(int world_size, absl::string_view host);

// Of this process, now.
int64_t OpenDescriptors();

}  // namespace distill
