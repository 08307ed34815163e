// Which of many sockets have something to read, or take something again: what waits costs nothing, only what is ready
// does. Linux' epoll, and an eventfd that wakes the thread that waits.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"

namespace distill {

class ReadySockets {
 public:
  struct Ready {
    void* owner = nullptr;
    bool readable = false;  // something came, or the end of the stream, or an error
  };

  ReadySockets();
  ~ReadySockets();
  ReadySockets(const ReadySockets&) = delete;
  ReadySockets& operator=(const ReadySockets&) = delete;

  // ResourceExhausted: this process, or its host, has no descriptors left for it. All else then does nothing.
  [[nodiscard]] absl::Status status() const { return status_; }

  // These may be called from any thread while another one waits. A socket is reported for as long as it is ready.
  void Add(int fd, void* owner);
  // Whether it is reported, too, while it takes something to send.
  void WaitToSend(int fd, void* owner, bool wait);
  void Remove(int fd);
  void Wake() const;

  // Blocks until something is ready, Wake was called or the time has passed (-1: never does).
  std::vector<Ready> Wait(int milliseconds);
  // What is ready now.
  std::vector<Ready> Look() const;

 private:
  // True: Wake was called.
  bool Ask(int milliseconds, std::vector<Ready>& ready) const;

  absl::Status status_;
  int epoll_ = -1;
  int wake_ = -1;
};

}  // namespace distill
