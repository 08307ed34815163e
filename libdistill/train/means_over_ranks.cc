#include "libdistill/train/means_over_ranks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {

absl::StatusOr<MeansAndRequest> MeansOverRanks(Communicator& comm, const std::vector<std::string>& names,
                                               const TermSums& mine, absl::Status status, StopRequest request) {
  // Counts are exact in float64, below 2^53.
  const size_t n = names.size();
  std::vector<double> values(2 * n + 3, 0.0);
  for (const auto& [name, sum] : mine.sums()) {
    if (std::binary_search(names.begin(), names.end(), name)) continue;
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("a pass reports '", name, "', which no rank had named before the first step (Task::Reported); it ",
                     "had named: ", names.empty() ? "nothing" : absl::StrJoin(names, ", "))));
  }
  // A device reports here what went wrong on it since.
  status.Update(CatchTorch([&] {
    for (size_t i = 0; i < n; ++i) {
      const auto found = mine.sums().find(names[i]);
      if (found == mine.sums().end()) continue;
      values[i] = found->second.sum.item<double>();
      values[n + i] = static_cast<double>(found->second.count);
    }
  }));
  values[2 * n] = status.ok() ? 0 : 1;
  values[2 * n + 1] = request == StopRequest::kEnd ? 1 : 0;
  values[2 * n + 2] = request == StopRequest::kLeave ? 1 : 0;
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(values.data(), values.data(), static_cast<int64_t>(values.size()),
                                         DType::kFloat64, ReduceOp::kSum));
  if (values[2 * n] > 0) return Agree(comm, status);
  MeansAndRequest result;
  if (values[2 * n + 1] > 0) result.request = StopRequest::kEnd;
  if (values[2 * n + 2] > 0) result.request = StopRequest::kLeave;
  for (size_t i = 0; i < n; ++i) {
    if (values[n + i] > 0) result.means[names[i]] = values[i] / values[n + i];
  }
  return result;
}

}  // namespace distill
