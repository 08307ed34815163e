#include "libdistill/store/followed_folder.h"

#include <map>
#include <mutex>
#include <utility>

#include "libdistill/store/files.h"

namespace distill {
namespace {

// Of the process, as the stores are.
struct FollowedFolders {
  std::mutex mutex;
  std::map<std::string, FollowFile> by_folder;
};

FollowedFolders& Followed() {
  static auto* const folders = new FollowedFolders;
  return *folders;
}

}  // namespace

FollowedFolder::FollowedFolder(const std::string& folder, FollowFile follow) : folder_(folder) {
  const std::lock_guard lock(Followed().mutex);
  Followed().by_folder[folder_] = std::move(follow);
}

FollowedFolder::~FollowedFolder() {
  const std::lock_guard lock(Followed().mutex);
  Followed().by_folder.erase(folder_);
}

ByteFollower FollowerOf(const std::string& path) {
  const std::lock_guard lock(Followed().mutex);
  const auto found = Followed().by_folder.find(ParentFolder(path));
  return found == Followed().by_folder.end() ? nullptr : found->second(LastName(path));
}

}  // namespace distill
