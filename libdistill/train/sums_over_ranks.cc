#include "libdistill/train/sums_over_ranks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {

absl::StatusOr<SumsOverRanks::Result> SumsOverRanks::Add(const TermSums& mine, absl::Status status, StopWish wish) {
  // Counts are exact in float64, below 2^53.
  const size_t n = names_.size();
  std::vector<double> values(2 * n + 3, 0.0);
  for (const auto& [name, sum] : mine.sums()) {
    if (std::binary_search(names_.begin(), names_.end(), name)) continue;
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("a pass reports '", name, "', which no rank had named before the first step (Task::Reported); it ",
                     "had named: ", names_.empty() ? "nothing" : absl::StrJoin(names_, ", "))));
  }
  // A device reports here what went wrong on it since.
  status.Update(CatchTorch([&] {
    for (size_t i = 0; i < n; ++i) {
      const auto found = mine.sums().find(names_[i]);
      if (found == mine.sums().end()) continue;
      values[i] = found->second.sum.item<double>();
      values[n + i] = static_cast<double>(found->second.count);
    }
    return absl::OkStatus();
  }));
  values[2 * n] = status.ok() ? 0 : 1;
  values[2 * n + 1] = wish == StopWish::kEnd ? 1 : 0;
  values[2 * n + 2] = wish == StopWish::kLeave ? 1 : 0;
  DISTILL_RETURN_IF_ERROR(comm_.AllReduce(values.data(), values.data(), static_cast<int64_t>(values.size()),
                                          DType::kFloat64, ReduceOp::kSum));
  if (values[2 * n] > 0) return Agree(comm_, status);
  Result result;
  if (values[2 * n + 1] > 0) result.wish = StopWish::kEnd;
  if (values[2 * n + 2] > 0) result.wish = StopWish::kLeave;
  for (size_t i = 0; i < n; ++i) result.sums.push_back({values[i], static_cast<int64_t>(values[n + i])});
  return result;
}

}  // namespace distill
