#include "libdistill/checkpoint/remove_or_warn.h"

#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint_place.h"
#include "libdistill/core/log.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// Saves come again and again, and so would the warning.
bool IsFirstTime(const std::string& folder) {
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  return known.insert(folder).second;
}

}  // namespace

void RemoveOrWarn(const std::string& folder) {
  std::string now = folder;
  const absl::Status removed = PlaceOf(ParentFolder(folder))->HideAndRemove(now);
  if (removed.ok() || !IsFirstTime(now)) return;
  LogWarning(absl::StrCat(folder, " is not needed any more, and stays: ", removed.message(),
                          "; training continues, and each save tries again (see its permissions and lsattr)"));
}

}  // namespace distill
