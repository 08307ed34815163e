// What a rank's process takes of its machine, by the kernel's own books: memory, descriptors by their kind, threads,
// and what has passed over its connections to where the job met.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace distill {

// A connection's bytes and segments with data, both ways, as the kernel counts them (TCP_INFO).
struct ConnectionTraffic {
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  int64_t segments_sent = 0;
  int64_t segments_received = 0;
};

struct ProcessUsage {
  // Resident bytes, where a page that k processes have counts as 1/k: these add up to what a host's ranks take.
  int64_t memory_bytes = 0;
  int64_t private_bytes = 0;  // of them, what no other process has
  int64_t threads = 0;
  int64_t descriptors = 0;  // all; of them:
  int64_t at_meeting = 0;   // connections to or from the port where the job met
  int64_t connections = 0;  // the other ones over TCP: the fabric's, and those by which parts met
  int64_t listeners = 0;    // the fabric's
  int64_t processes = 0;    // watched, of the same host
  int64_t memories = 0;     // shared with them
  ConnectionTraffic meeting;
};

// Of this process, now; `port`: where the job met. Takes some milliseconds. Unavailable: the kernel has no
// /proc/self/smaps_rollup (before Linux 4.14, or where it is hidden).
[[nodiscard]] absl::StatusOr<ProcessUsage> LookAtProcess(int port);

}  // namespace distill
