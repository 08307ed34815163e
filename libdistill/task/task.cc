#include "libdistill/task/task.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace distill {

std::string MicroStep::Describe(int64_t number, int64_t of) const {
  constexpr size_t kMost = 16;
  const std::string which = absl::StrCat("micro-batch ", number + 1, " of ", of, ", ");
  if (sample_ids.empty()) return absl::StrCat(which, "of samples that the task does not name");
  const size_t shown = std::min(sample_ids.size(), kMost);
  return absl::StrCat(which, sample_ids.size() == 1 ? "sample " : "samples ",
                      absl::StrJoin(sample_ids.begin(), sample_ids.begin() + static_cast<int64_t>(shown), ", "),
                      shown < sample_ids.size() ? ", ..." : "");
}

}  // namespace distill
