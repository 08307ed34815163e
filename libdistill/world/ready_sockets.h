// Which of many sockets have something to read, or take something again: what waits costs nothing, only what is ready
// does. Linux' epoll, and an eventfd that wakes the thread that waits.
#pragma once

#include <cstddef>
#include <cstdint>
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

  // ResourceExhausted: this process, or its host, has no descriptors left for it; all else then does nothing. Or what
  // an Add has met: that socket is never reported.
  [[nodiscard]] absl::Status status() const { return status_; }

  // A socket is reported for as long as it is ready. Before another thread waits or asks for the status.
  void Add(int fd, void* owner);

  // These may be called from any thread while another one waits.
  // Whether it is reported, too, while it takes something to send. An error: it is reported as before, so what waits to
  // be sent would wait for ever.
  [[nodiscard]] absl::Status WaitToSend(int fd, void* owner, bool wait);
  void Remove(int fd);
  void Wake() const;

  // Blocks until something is ready, Wake was called or the time has passed (-1: never does).
  std::vector<Ready> Wait(int milliseconds);
  // What is ready now.
  std::vector<Ready> Look() const;

 private:
  [[nodiscard]] absl::Status Control(int operation, int fd, uint32_t events, void* owner) const;
  // True: Wake was called.
  bool Ask(int milliseconds, std::vector<Ready>& ready) const;

  absl::Status status_;
  int epoll_ = -1;
  int wake_ = -1;
};

}  // namespace distill
