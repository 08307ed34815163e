#include "examples/squad/deadline_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/time/clock.h"

namespace distill {
namespace {

constexpr absl::Duration kSlice = absl::Milliseconds(100), kGrace = absl::Seconds(1);

// Whether the socket is ready, or has failed, before `deadline`.
bool Await(int socket, short events, absl::Time deadline) {
  for (;;) {
    pollfd one = {.fd = socket, .events = events, .revents = 0};
    const absl::Duration left = std::clamp(deadline - absl::Now(), absl::ZeroDuration(), absl::Hours(1));
    const int ready =
        poll(&one, 1, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace

bool DeadlineStream::AwaitRequest(absl::Duration timeout, const std::atomic<bool>& stops) {
  const absl::Time limit = absl::Now() + timeout;
  while (begin_ == end_) {
    if (stops || absl::Now() >= limit) return false;
    if (!Await(socket_, POLLIN, std::min(limit, absl::Now() + kSlice))) continue;
    const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    begin_ = 0;
    end_ = static_cast<size_t>(got);
  }
  return true;
}

void DeadlineStream::SetDeadline(absl::Time deadline) {
  deadline_ = deadline;
  is_late_ = false;
}

bool DeadlineStream::is_readable() const { return begin_ < end_ || Await(socket_, POLLIN, deadline_); }

bool DeadlineStream::is_writable() const { return Await(socket_, POLLOUT, deadline_ + kGrace); }

ssize_t DeadlineStream::read(char* bytes, size_t size) {
  while (begin_ == end_) {
    if (absl::Now() >= deadline_ || !Await(socket_, POLLIN, deadline_)) {
      is_late_ = true;
      return -1;
    }
    const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got;
    begin_ = 0;
    end_ = static_cast<size_t>(got);
  }
  const size_t count = std::min(size, end_ - begin_);
  std::memcpy(bytes, buffer_.data() + begin_, count);
  begin_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t DeadlineStream::write(const char* bytes, size_t size) {
  for (;;) {
    if (!is_writable()) return -1;
    const ssize_t sent = send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0 || (errno != EINTR && errno != EAGAIN)) return sent;
  }
}

void DeadlineStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

void DeadlineStream::get_local_ip_and_port(std::string& ip, int& port) const { get_remote_ip_and_port(ip, port); }

void CloseGently(int socket) {
  shutdown(socket, SHUT_WR);
  const absl::Time limit = absl::Now() + kGrace;
  char dropped[16384];
  while (absl::Now() < limit && Await(socket, POLLIN, limit)) {
    const ssize_t got = recv(socket, dropped, sizeof(dropped), 0);
    if (got == 0 || (got < 0 && errno != EINTR)) break;
  }
  close(socket);
}

}  // namespace distill
