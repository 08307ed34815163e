#include "libdistill/checkpoint/final_save.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// Of this run alone: several may share a fallback.
std::string FolderIn(const std::string& fallback, const std::string& output_dir) {
  return JoinPath(fallback, absl::StrCat(LastName(CanonicalPath(output_dir)), "-", getpid()));
}

}  // namespace

bool IsOfDisk(const absl::Status& error) {
  return !absl::IsUnavailable(error) && !absl::IsDeadlineExceeded(error) && !absl::IsAborted(error) &&
         !absl::IsFailedPrecondition(error) && !absl::IsInvalidArgument(error) && !absl::IsUnimplemented(error);
}

absl::Status PublishWithRetries(const std::string& output_dir, absl::Duration retry,
                                const std::function<absl::Status(const std::string& folder)>& write,
                                const std::function<bool()>& gives_up) {
  constexpr absl::Duration kPause = absl::Seconds(5);
  const char* const fallback = std::getenv("DISTILL_FALLBACK_DIR");
  const Deadline deadline = Deadline::After(retry);
  for (;;) {
    const absl::Status published = PublishFiles(output_dir, write);
    if (published.ok() || !IsOfDisk(published)) return published;
    const std::string failed =
        absl::StrCat("the trained model cannot be written to ", output_dir, ": ", published.message());
    if (fallback != nullptr) {
      const std::string place = FolderIn(fallback, output_dir);
      const absl::Status elsewhere = PublishFiles(place, write);
      if (elsewhere.ok()) {
        LogWarning(absl::StrCat(failed, "; it is in ", place, " (DISTILL_FALLBACK_DIR) instead"));
        return absl::OkStatus();
      }
      LogWarning(absl::StrCat("nor to ", place, " (DISTILL_FALLBACK_DIR): ", elsewhere.message()));
    }
    if (gives_up()) return absl::CancelledError(failed);
    if (deadline.Passed()) return Annotate(published, "the trained model (final_save_retry_seconds is over)");
    LogWarning(absl::StrCat(failed, "; trying again for ",
                            absl::FormatDuration(absl::Trunc(deadline.Left(), absl::Seconds(1))),
                            " (final_save_retry_seconds): free space, or remove what is not needed"));
    absl::SleepFor(std::min(kPause, deadline.Left()));
  }
}

}  // namespace distill
