// Means out of sums and counts over micro-batches and ranks, for training and evaluation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/task/losses.h"

namespace distill {

// What a rank wants to become of the run: to end as if its last step had been made, or to be saved and left at once,
// for another job to resume.
enum class StopRequest { kNone, kEnd, kLeave };

struct MeansAndRequest {
  std::map<std::string, double> means = {};  // of what any rank has counted
  StopRequest request = StopRequest::kNone;  // the strongest of any rank
};

// Every rank must call it, with its own sums and status, and the same sorted names (UnionOfNames): an error of any rank
// is returned on all. InvalidArgument: a sum of a name that is none of those.
[[nodiscard]] absl::StatusOr<MeansAndRequest> MeansOverRanks(Communicator& comm, const std::vector<std::string>& names,
                                                             const TermSums& mine, absl::Status status,
                                                             StopRequest request = StopRequest::kNone);

}  // namespace distill
