#include "libdistill/checkpoint/space.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/log.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

std::string Gib(int64_t bytes) { return absl::StrFormat("%.3g GiB", static_cast<double>(bytes) / (1 << 30)); }

// Of all files below, as far as they can be seen.
int64_t BytesIn(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code no_size;
    const uintmax_t size = it->is_regular_file(no_size) ? it->file_size(no_size) : 0;
    if (!no_size) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace

absl::Status CheckSpace(const std::string& output_dir, const SavePlan& plan) {
  std::error_code error;
  const fs::space_info space = fs::space(output_dir, error);
  if (error) return absl::OkStatus();  // a file system that does not tell
  const int64_t available = static_cast<int64_t>(space.available) + BytesIn(output_dir);
  const int64_t needed = plan.model_bytes + (plan.kept > 0 ? (plan.kept + 1) * plan.checkpoint_bytes : 0);
  if (needed > available) {
    const std::string checkpoints =
        plan.kept == 0 ? ""
                       : absl::StrCat(" and ", plan.kept, " checkpoints of ", Gib(plan.checkpoint_bytes),
                                      ", with one more while it is written,");
    return absl::ResourceExhaustedError(absl::StrCat(
        "output_dir ", output_dir, " has ", Gib(available), " for the run; its model of ", Gib(plan.model_bytes),
        checkpoints, " needs ", Gib(needed), ": free space, choose another output_dir, or lower save_total_limit"));
  }
  if (plan.planned > plan.kept && plan.model_bytes + plan.planned * plan.checkpoint_bytes > available) {
    LogWarning(absl::StrCat("output_dir ", output_dir, " has ", Gib(available), " for the run: not enough for all ",
                            plan.planned, " checkpoints of ", Gib(plan.checkpoint_bytes), ", which are all kept",
                            " (save_total_limit: 0)"));
  }
  return absl::OkStatus();
}

}  // namespace distill
