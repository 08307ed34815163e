// TCP sockets with deadlines: what the rendezvous needs, no more. All sockets are non-blocking inside.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/deadline.h"
#include "libdistill/world/name_lookup.h"

namespace distill {

// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct HostPort {
  std::string host;
  std::string port;
};

// "host:port" or "[v6 address]:port". InvalidArgument for anything else.
[[nodiscard]] absl::StatusOr<HostPort> ParseHostPort(const std::string& text);

// Whether only this host can be meant: "localhost" (127.0.0.1 here, whatever name servers say), "::1", "127...".
bool IsLoopback(const std::string& host);

// Listens on `port` (0: one that is free): on loopback alone when `host` is a loopback address, else on every
// interface, for `host` may be a name that only the others can resolve. Asks no name server. Unavailable: the port is
// taken; ResourceExhausted: no descriptor is left.
[[nodiscard]] absl::StatusOr<Socket> Listen(const HostPort& place);

// The next connection that waits, or a socket that is not open; then errno says why (EAGAIN: none waits).
[[nodiscard]] Socket AcceptOne(const Socket& listener);

// One attempt on every address of the name, which `names` finds. Unavailable: nobody listens, the name is unknown;
// DeadlineExceeded, also where the name is not resolved in time; ResourceExhausted: no descriptor is left.
[[nodiscard]] absl::StatusOr<Socket> Connect(const HostPort& place, const Deadline& deadline, NameLookup& names);

// Blocks until all is handed to the kernel. Unavailable when the other side is gone.
[[nodiscard]] absl::Status SendAll(const Socket& socket, absl::string_view bytes, const Deadline& deadline);

// What has arrived, at most `limit` bytes; empty when nothing has. Unavailable at the end of the stream.
[[nodiscard]] absl::StatusOr<std::string> ReceiveSome(const Socket& socket, size_t limit);

// Hands the kernel what it takes at once of one text and then another; returns how many bytes. Unavailable when the
// other side is gone.
[[nodiscard]] absl::StatusOr<size_t> SendBoth(const Socket& socket, absl::string_view first, absl::string_view second);

// Exactly `count` bytes.
[[nodiscard]] absl::StatusOr<std::string> ReceiveAll(const Socket& socket, size_t count, const Deadline& deadline);

// False once the other side has closed or reset the connection and nothing is left to read.
bool StillOpen(const Socket& socket);

// The numeric address of this side, without the port: an interface that reaches the peer.
std::string LocalAddress(const Socket& socket);
// The port of this side; empty when the socket has none.
std::string LocalPort(const Socket& socket);
// "address:port" of the other side, for messages.
std::string RemoteAddress(const Socket& socket);

}  // namespace distill
