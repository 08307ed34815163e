#include "libdistill/transport/tcp_send_buffer.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

#include "absl/strings/numbers.h"

namespace distill {
namespace {

constexpr double kBytesPerSecond = 25e9 / 8;
constexpr int64_t kLeast = 128 << 10;

// Family, port and address alone: the rest of a sockaddr may differ between two that are the same. Empty: of another
// family.
std::string Key(const sockaddr_storage& address) {
  std::string key(1, static_cast<char>(address.ss_family));
  const auto add = [&key](const auto& field) { key.append(reinterpret_cast<const char*>(&field), sizeof(field)); };
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    add(v4.sin_port), add(v4.sin_addr);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    add(v6.sin6_port), add(v6.sin6_addr);
  } else {
    return "";
  }
  return key;
}

std::string Key(absl::string_view bytes) {
  sockaddr_storage address = {};
  std::memcpy(&address, bytes.data(), std::min(bytes.size(), sizeof(address)));
  return Key(address);
}

// The longest that a program may ask for. Containers have no such file before Linux 6.10; most hosts leave it as it is.
int64_t LongestAllowed() {
  constexpr int64_t kDefault = 212992;
  std::ifstream file("/proc/sys/net/core/wmem_max");
  int64_t bytes = 0;
  return file >> bytes ? bytes : kDefault;
}

// The shortest so far: others have waited in queues. Infinite where there is none.
absl::Duration ShortestRoundTrip(int fd) {
  tcp_info info = {};
  socklen_t length = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return absl::InfiniteDuration();
  if (info.tcpi_min_rtt == std::numeric_limits<uint32_t>::max()) return absl::InfiniteDuration();
  return absl::Microseconds(info.tcpi_min_rtt);
}

}  // namespace

int64_t SendBufferFor(absl::Duration round_trip) {
  const double bytes = kBytesPerSecond * absl::ToDoubleSeconds(round_trip);
  if (!(bytes < static_cast<double>(std::numeric_limits<int>::max()))) return std::numeric_limits<int>::max();
  return std::max(kLeast, static_cast<int64_t>(bytes));
}

std::optional<int> ChooseSendBuffer(int64_t preference, absl::Duration round_trip, int64_t allowed) {
  const int64_t bytes = preference == kByRoundTrip ? SendBufferFor(round_trip) : preference;
  if (preference == kByRoundTrip && bytes > allowed) return std::nullopt;
  return static_cast<int>(std::min<int64_t>(bytes, std::numeric_limits<int>::max()));
}

TcpSendBuffer::TcpSendBuffer(absl::string_view own, const std::vector<std::string>& peers, int64_t preference)
    : own_(Key(own)), preference_(preference) {
  for (const std::string& peer : peers) peers_.push_back(Key(peer));
  std::sort(peers_.begin(), peers_.end());
}

bool TcpSendBuffer::IsOurs(int fd) const {
  sockaddr_storage near = {}, far = {};
  socklen_t length = sizeof(near);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&near), &length) != 0) return false;
  length = sizeof(far);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&far), &length) != 0) return false;  // it listens
  const std::string key = Key(far);
  return !key.empty() && (Key(near) == own_ || std::binary_search(peers_.begin(), peers_.end(), key));
}

bool TcpSendBuffer::BoundOne(int fd, int64_t allowed) const {
  const std::optional<int> bytes = ChooseSendBuffer(preference_, ShortestRoundTrip(fd), allowed);
  return bytes.has_value() && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &*bytes, sizeof(*bytes)) == 0;
}

int TcpSendBuffer::Bound() const {
  const int64_t allowed = LongestAllowed();
  int bounded = 0;
  std::error_code error;
  for (auto file = std::filesystem::directory_iterator("/proc/self/fd", error);
       !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    int fd = -1;
    if (absl::SimpleAtoi(file->path().filename().string(), &fd) && IsOurs(fd) && BoundOne(fd, allowed)) ++bounded;
  }
  return bounded;
}

}  // namespace distill
