// A connection as cpp-httplib reads and writes it, where each request has a deadline as a whole: its own time-outs
// begin anew with every byte, so that a client that sends one now and then would hold a thread for ever.
#pragma once

#include <httplib.h>

#include <array>
#include <atomic>
#include <string>

#include "absl/time/time.h"

namespace distill {

class DeadlineStream : public httplib::Stream {
 public:
  explicit DeadlineStream(int socket) : socket_(socket) {}

  // Waits for the first byte of a request. False: none came in time, the client is gone, or `stops` became true.
  bool AwaitRequest(absl::Duration timeout, const std::atomic<bool>& stops);
  // What follows fails after `deadline`, but for answers, which may take a second longer.
  void SetDeadline(absl::Time deadline);
  bool is_late() const { return is_late_; }  // reading has failed by the deadline

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* bytes, size_t size) override;
  ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  const int socket_;
  absl::Time deadline_ = absl::InfiniteFuture();
  bool is_late_ = false;
  std::array<char, 16384> buffer_;  // headers are read byte by byte
  size_t begin_ = 0, end_ = 0;
};

// Closes the connection so that the client can read the answer although it may still be sending: what comes is read for
// up to a second.
void CloseGently(int socket);

}  // namespace distill
