// Calls between all ranks of a job in two levels that do not go in levels: messages, all-to-all, and what the table of
// costs takes over the fabric as a whole. Two communicators do them:
//   - one over a single rail, opened with the job, for messages between two ranks, which cannot wait for all the others
//     to open anything, and for calls so short that a second rail would carry nothing of them;
//   - one over all rails, opened by the first longer call, where there is more than one rail.
// So a job that makes no such call opens no endpoint for it. Where communicators share their rails (fabric_pool.h) both
// are channels of those that the lanes have. Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/backend.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/part_rendezvous.h"
#include "libdistill/comm/setup.h"

namespace distill {

class FlatCalls {
 public:
  // Every rank of the job must call it; `rails`: that this rank could use. Blocks until all have met.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FlatCalls>> Open(const Setup& job,
                                                                       std::shared_ptr<JobCalls> calls, size_t rails);
  ~FlatCalls();

  // A message, or a collective, which every rank must call. The first longer one also opens what it needs, within the
  // time of a call. An error of that is every rank's.
  [[nodiscard]] absl::Status Run(const CommCall& call);
  // The same on every rank.
  const CommTuning& tuning() const { return *narrow_->tuning(); }
  // As CommBackend's, with both communicators, also if the second one is opened later.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<CommMemory>> RegisterToo(std::unique_ptr<CommMemory> memory);

 private:
  class Memory;
  struct Registry;
  FlatCalls(Setup job, std::shared_ptr<JobCalls> calls);
  absl::Status OpenWide();

  Setup job_;  // with the part's rendezvous
  const std::shared_ptr<JobCalls> calls_;
  bool has_more_rails_ = false;
  std::unique_ptr<CommBackend> narrow_;
  std::unique_ptr<CommBackend> wide_;         // null until it is needed
  const std::shared_ptr<Registry> registry_;  // of memory that is not freed yet, which may be after this
};

}  // namespace distill
