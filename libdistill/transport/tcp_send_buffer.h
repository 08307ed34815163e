// How many bytes of a TCP connection the kernel holds until the other end has acknowledged them; internal to
// transport/.
//
// Left alone, Linux lets that grow to 4 MiB (net.ipv4.tcp_wmem), far beyond what a link of a cluster has on its way:
// its rate times the round trip, 60 kB at 10 Gbit/s and 50 us. The rest waits in queues, where small messages of other
// connections stand behind it, and falls out of the processors' caches: the sender's copy and the receiver's are then
// from and to memory. libfabric's sockets are not to be had through its interface (FI_GET_FD, of 2.2, knows those of
// connected endpoints only); among the process's they are found by their addresses, which no others have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace distill {

// In bytes, as SO_SNDBUF takes them: what a stream of 25 Gbit/s has on its way in such a time, 128 KiB at least. The
// kernel takes twice as much, for what it keeps beside the bytes.
int64_t SendBufferFor(absl::Duration round_trip);

constexpr int64_t kByRoundTrip = -1;

// What to ask for: `preference`, of which the kernel takes no more than a program is allowed (net.core.wmem_max); or by
// the round trip, and nothing where that is not allowed: the kernel's own may be longer.
std::optional<int> ChooseSendBuffer(int64_t preference, absl::Duration round_trip, int64_t allowed);

class TcpSendBuffer {
 public:
  // Of connections that this rank has accepted at its own address, or made to one of the peers': sockaddr_in or
  // sockaddr_in6, as libfabric has them. `preference`: in bytes, or kByRoundTrip: each connection's shortest.
  TcpSendBuffer(absl::string_view own, const std::vector<std::string>& peers, int64_t preference);

  // For those that there are now. How many were bounded. Tens of microseconds, and some for each open file.
  int Bound() const;

 private:
  bool IsOurs(int fd) const;
  bool BoundOne(int fd, int64_t allowed) const;

  std::string own_;
  std::vector<std::string> peers_;  // sorted
  int64_t preference_;
};

}  // namespace distill
