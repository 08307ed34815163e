#include "libdistill/world/ready_sockets.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

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

void ReadySockets::Add(int fd, void* owner) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = owner;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

void ReadySockets::WaitToSend(int fd, void* owner, bool wait) {
  epoll_event event = {};
  event.events = wait ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = owner;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
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
