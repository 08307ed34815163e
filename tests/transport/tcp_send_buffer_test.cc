#include "libdistill/transport/tcp_send_buffer.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "libdistill/transport/fabric_endpoint.h"
#include "libdistill/world/socket.h"
#include "tests/support/catch.h"
#include "tests/support/connect.h"

namespace distill {
namespace {

constexpr int kUnusual = 90 << 10;  // below every system's net.core.wmem_max, and nobody's own choice

int SendBufferOf(int fd) {
  int bytes = 0;
  socklen_t length = sizeof(bytes);
  REQUIRE(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &length) == 0);
  return bytes;
}

// A listener on loopback and one connection to it.
struct Pair {
  explicit Pair(const std::string& host) : listener(Listen({host, "0"}).value()) {
    const Deadline deadline = Deadline::After(absl::Seconds(10));
    near = testing::Connect({host, LocalPort(listener)}, deadline).value();
    while (!accepted.open() && !deadline.Passed()) accepted = AcceptOne(listener);
    REQUIRE(accepted.open());
    socklen_t length = sizeof(sockaddr_storage);
    address.resize(length);
    REQUIRE(getsockname(accepted.fd(), reinterpret_cast<sockaddr*>(address.data()), &length) == 0);
    address.resize(length);
  }
  Socket listener, near, accepted;
  std::string address;  // a sockaddr
};

// How many sockets of this process have it.
int CountWith(int bytes) {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    int found = 0;
    socklen_t length = sizeof(found);
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &found, &length) == 0 && found == bytes) ++count;
  }
  return count;
}

TEST_CASE("a send buffer holds what 25 Gbit/s have on their way, and no less than 128 KiB") {
  CHECK(SendBufferFor(absl::ZeroDuration()) == 128 << 10);
  CHECK(SendBufferFor(absl::Microseconds(30)) == 128 << 10);
  CHECK(SendBufferFor(absl::Microseconds(100)) == 312500);
  CHECK(SendBufferFor(absl::Milliseconds(2)) == 6250000);
  CHECK(SendBufferFor(absl::InfiniteDuration()) == std::numeric_limits<int>::max());
}

void CheckBounded(const std::string& host) {
  const Pair own(host), peer(host), other(host);
  const int before = SendBufferOf(other.near.fd());
  CHECK(TcpSendBuffer(own.address, {peer.address}, kUnusual).Bound() == 2);
  CHECK(SendBufferOf(own.accepted.fd()) == 2 * kUnusual);
  CHECK(SendBufferOf(peer.near.fd()) == 2 * kUnusual);
  for (const Socket* socket : {&own.near, &peer.accepted, &other.near, &other.accepted}) {
    CHECK(SendBufferOf(socket->fd()) == before);
  }
}

TEST_CASE("connections accepted here and made to peers are bounded, and no others") { CheckBounded("127.0.0.1"); }

TEST_CASE("connections over IPv6 are bounded, too", "[ipv6]") {
  if (std::ifstream("/proc/net/if_inet6").good()) return CheckBounded("::1");
  WARN("skipped: no IPv6 on this host");
}

TEST_CASE("a buffer goes by the round trip where the system allows that much, and a preference as far as it does") {
  constexpr int64_t kAllowed = 212992;
  CHECK(ChooseSendBuffer(kByRoundTrip, absl::Microseconds(20), kAllowed) == 128 << 10);
  CHECK(ChooseSendBuffer(kByRoundTrip, absl::Microseconds(68), kAllowed) == 212500);
  CHECK(ChooseSendBuffer(kByRoundTrip, absl::Microseconds(100), kAllowed) == std::nullopt);
  CHECK(ChooseSendBuffer(kByRoundTrip, absl::InfiniteDuration(), kAllowed) == std::nullopt);
  CHECK(ChooseSendBuffer(1000, absl::Milliseconds(9), kAllowed) == 1000);
  CHECK(ChooseSendBuffer(kAllowed + 1, absl::ZeroDuration(), kAllowed) == kAllowed + 1);
  CHECK(ChooseSendBuffer(int64_t{1} << 40, absl::ZeroDuration(), kAllowed) == std::numeric_limits<int>::max());
}

TEST_CASE("an endpoint's connections are bounded once a message has gone over them") {
  const int64_t wanted = GENERATE(0, int{kUnusual});  // values: a name would be kept as a reference
  setenv("FI_TCP_IFACE", "lo", 1);
  FabricOptions options;
  options.provider = "tcp";
  options.send_buffer = wanted;
  const std::unique_ptr<FabricEndpoint> left = FabricEndpoint::Create(options).value();
  const std::unique_ptr<FabricEndpoint> right = FabricEndpoint::Create(options).value();
  for (FabricEndpoint* end : {left.get(), right.get()}) {
    REQUIRE(end->Connect({left->address(), right->address()}, {"rank 0", "rank 1"}).ok());
  }
  const FabricMemory nothing;
  const std::string sent = "anything";
  std::string received(sent.size(), ' ');
  FabricOperation send, receive;
  REQUIRE(right->Receive(0, 1, received.data(), received.size(), nothing, &receive).value());
  bool posted = false;
  const Deadline deadline = Deadline::After(absl::Seconds(10));
  while (!(posted && send.done && receive.done) && !deadline.Passed()) {
    if (!posted) posted = left->Send(1, 1, sent.data(), sent.size(), nothing, &send).value();
    REQUIRE(left->Poll().ok());
    REQUIRE(right->Poll().ok());
  }
  REQUIRE(received == sent);
  REQUIRE(left->Poll().ok());  // once more each, now that they know
  REQUIRE(right->Poll().ok());
  CHECK(CountWith(2 * kUnusual) == (wanted > 0 ? 2 : 0));
}

}  // namespace
}  // namespace distill
