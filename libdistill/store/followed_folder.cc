#include "libdistill/store/followed_folder.h"

#include <sys/stat.h>

#include <ctime>
#include <map>
#include <mutex>
#include <utility>

#include "libdistill/store/files.h"
#include "libdistill/store/local_store.h"

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

// Called outside of the lock: a callback may write files, too.
std::shared_ptr<FileFollower> FollowerOf(const std::string& path) {
  FollowFile follow;
  {
    const std::lock_guard lock(Followed().mutex);
    const auto found = Followed().by_folder.find(ParentFolder(path));
    if (found != Followed().by_folder.end()) follow = found->second;
  }
  return follow == nullptr ? nullptr : follow(LastName(path));
}

void EndFollowed(FileFollower* follower, int fd) {
  if (follower == nullptr) return;
  timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {}};
  struct stat about = {};
  clock_gettime(CLOCK_REALTIME, &times[1]);
  if (futimens(fd, times) == 0 && fstat(fd, &about) == 0) follower->End(LocalVersion(about));
}

}  // namespace distill
