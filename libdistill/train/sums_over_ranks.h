// Sums and counts over micro-batches and ranks: how training and evaluation both make means.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/task/losses.h"

namespace distill {

// What a rank wants to become of the run: to end as if its last step had been made, or to be saved and left at once,
// for another job to resume.
enum class StopWish { kNone, kEnd, kLeave };

class SumsOverRanks {
 public:
  struct Sum {
    double sum = 0;
    int64_t count = 0;
  };

  // `names`: the same on every rank, in the same order (UnionOfNames).
  SumsOverRanks(Communicator& comm, std::vector<std::string> names) : comm_(comm), names_(std::move(names)) {}

  struct Result {
    std::vector<Sum> sums = {};       // of each name; a rank that lacks one adds nothing to its sum and count
    StopWish wish = StopWish::kNone;  // the strongest of any rank
  };
  // Every rank must call it, with its own sums and status: an error of any rank is returned on all. InvalidArgument: a
  // sum of a name that is none of those above.
  [[nodiscard]] absl::StatusOr<Result> Add(const TermSums& mine, absl::Status status, StopWish wish = StopWish::kNone);

  const std::vector<std::string>& names() const { return names_; }

 private:
  Communicator& comm_;
  const std::vector<std::string> names_;
};

}  // namespace distill
