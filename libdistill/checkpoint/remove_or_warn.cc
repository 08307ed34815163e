#include "libdistill/checkpoint/remove_or_warn.h"

#include <filesystem>
#include <mutex>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"

namespace distill {
namespace {

// Saves come again and again, and so would the warning.
bool IsFirstTime(const std::string& folder) {
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  return known.insert(folder).second;
}

absl::Status HideAndRemove(std::string& folder) {
  const std::filesystem::path path(folder);
  const std::optional<NamedStep> named = StepOfName(path.filename().string());
  if (named.has_value()) {
    std::string hidden = FreeHiddenFolder(path.parent_path().string(), named->step, kDraftSuffix);
    DISTILL_RETURN_IF_ERROR(Rename(folder, hidden));
    folder = std::move(hidden);
  }
  return RemoveFolder(folder);
}

}  // namespace

void RemoveOrWarn(const std::string& folder) {
  std::string now = folder;
  const absl::Status removed = HideAndRemove(now);
  if (removed.ok() || !IsFirstTime(now)) return;
  LogWarning(absl::StrCat(folder, " is not needed any more, and stays: ", removed.message(),
                          "; training continues, and each save tries again (see its permissions and lsattr)"));
}

}  // namespace distill
