#include "libdistill/world/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace distill {
namespace {

// The listener, and what the thread behind the connections waits with.
constexpr int64_t kOfMeeting = 4;

}  // namespace

int64_t OpenDescriptors() {
  int64_t open = 0;
  if (DIR* const folder = opendir("/proc/self/fd"); folder != nullptr) {
    while (const dirent* entry = readdir(folder)) open += entry->d_name[0] != '.';
    closedir(folder);
    return open - 1;  // the folder's own
  }
  // No /proc, or no descriptor left for it.
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 16));
  for (int fd = 0; fd < end; ++fd) open += fcntl(fd, F_GETFD) >= 0;
  return open;
}

absl::StatusOr<MeetingDescriptors> PrepareDescriptors(int world_size, absl::string_view host) {
  const int64_t ranks = world_size - 1;
  const int64_t open = OpenDescriptors();
  const int64_t fixed = open + kOfMeeting + ranks + kDescriptorReserve;
  const int64_t needed = fixed + static_cast<int64_t>(kFewestGuests);
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t before = limit.rlim_cur;
  const rlim_t good = std::min(limit.rlim_max, static_cast<rlim_t>(fixed) + kMostGuests);
  if (limit.rlim_cur < good) {
    limit.rlim_cur = good;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  }
  if (limit.rlim_cur >= static_cast<rlim_t>(needed)) {
    const rlim_t left = limit.rlim_cur - static_cast<rlim_t>(fixed);
    return MeetingDescriptors{ranks, static_cast<size_t>(std::min<rlim_t>(left, kMostGuests))};
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "rank 0 on ", host, " needs ", needed, " descriptors to meet the other ", ranks, " ranks (", open,
      " are open, one is for each rank, ", kFewestGuests, " for connections that have not proved themselves, ",
      kOfMeeting + kDescriptorReserve, " for all else), but a process may have ", limit.rlim_cur,
      " there. Raise the limit on that host to at least ", needed, ": ulimit -n ", needed,
      " (the hard limit, ulimit -Hn, is ", limit.rlim_max, "), nofile in /etc/security/limits.conf, LimitNOFILE=",
      needed, " of the service that starts the job, or --ulimit nofile=", needed, " of its container"));
}

}  // namespace distill
