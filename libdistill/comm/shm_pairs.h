// Messages between two ranks of a host, in pieces of 128 KiB through the sender's memory. A rank sends one message at a
// time, so one pair of pieces is enough for all its peers: while the receiver copies one out, the next is filled.
// Each rank counts, for every peer, the pieces that it posted and those that it took; only it writes these counts.
// A Send ends when the receiver has taken the last piece.
#pragma once

#include "absl/status/status.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/shm_group.h"
#include "libdistill/core/deadline.h"

namespace distill {

class ShmPairs {
 public:
  // `group` must outlive this.
  explicit ShmPairs(const ShmGroup* group) : group_(*group) {}

  // Errors as ShmGroup::WaitFor; FailedPrecondition for the receiver when the other's message has another count or
  // type, with both views.
  [[nodiscard]] absl::Status Send(const CommCall& call, const Deadline& deadline);
  [[nodiscard]] absl::Status Receive(const CommCall& call, const Deadline& deadline);

 private:
  struct Line;
  // What `owner` says about its messages with `peer`.
  Line& line(int owner, int peer) const;

  const ShmGroup& group_;
};

}  // namespace distill
