#include "libdistill/world/ready_sockets.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/world/process.h"

namespace distill {

ReadySockets::ReadySockets()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(epoll_ < 0 ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wake_ >= 0) {
    Add(wake_, nullptr);
    return;
  }
  const int error = errno;
  status_ = absl::ResourceExhaustedError(
      absl::StrCat("no descriptor to wait for connections with: ", std::strerror(error), DescriptorRemedy(error)));
}

ReadySockets::~ReadySockets() {
  for (const int fd : {epoll_, wake_}) {
    if (fd >= 0) close(fd);
  }
}

// The kernel keeps some memory for each, and a user's share of it may be used up (ENOSPC).
absl::Status ReadySockets::Control(int operation, int fd, uint32_t events, void* owner) const {
  epoll_event event = {};
  event.events = events;
  event.data.ptr = owner;
  if (epoll_ctl(epoll_, operation, fd, &event) == 0) return absl::OkStatus();
  const int error = errno;
  const char* remedy = error == ENOSPC ? " (raise sysctl fs.epoll.max_user_watches on this host)" : "";
  const std::string text =
      absl::StrCat("the kernel cannot watch the connection at descriptor ", fd, ": ", std::strerror(error), remedy);
  return error == ENOMEM || error == ENOSPC ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

void ReadySockets::Add(int fd, void* owner) {
  if (status_.ok()) status_ = Control(EPOLL_CTL_ADD, fd, EPOLLIN, owner);
}

absl::Status ReadySockets::WaitToSend(int fd, void* owner, bool wait) {
  if (!status_.ok()) return absl::OkStatus();  // which has said so
  return Control(EPOLL_CTL_MOD, fd, wait ? EPOLLIN | EPOLLOUT : EPOLLIN, owner);
}

void ReadySockets::Remove(int fd) { epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr); }

void ReadySockets::Wake() const {
  const uint64_t one = 1;
  // A counter that is full wakes the thread as well.
  if (write(wake_, &one, sizeof(one)) < 0) return;
}

std::vector<ReadySockets::Ready> ReadySockets::Wait(int milliseconds) {
  std::vector<Ready> ready;
  uint64_t count = 0;
  if (Ask(milliseconds, ready) && read(wake_, &count, sizeof(count)) < 0) return ready;
  return ready;
}

std::vector<ReadySockets::Ready> ReadySockets::Look() const {
  std::vector<Ready> ready;
  Ask(0, ready);
  return ready;
}

// At most so many at once: the rest is reported next time, for those served go to the end of the kernel's list.
bool ReadySockets::Ask(int milliseconds, std::vector<Ready>& ready) const {
  constexpr int kAtOnce = 128;
  epoll_event events[kAtOnce];
  const int count = epoll_wait(epoll_, events, kAtOnce, milliseconds);
  bool woken = false;
  for (int i = 0; i < count; ++i) {
    woken = woken || events[i].data.ptr == nullptr;
    if (events[i].data.ptr == nullptr) continue;
    ready.push_back({events[i].data.ptr, (events[i].events & ~static_cast<uint32_t>(EPOLLOUT)) != 0});
  }
  return woken;
}

}  // namespace distill
