#include "libdistill/world/handed_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/rendezvous.h"
#include "tests/support/catch.h"
#include "tests/support/connect.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::AwaitAllRanks;
using testing::Connect;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

// As `reuse`: with SO_REUSEADDR.
bool CanBind(const std::string& port, bool reuse = false) {
  const Socket other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = reuse ? 1 : 0;
  setsockopt(other.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
  return bind(other.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

ino_t InodeOf(int fd) {
  struct stat about = {};
  return fstat(fd, &about) == 0 ? about.st_ino : 0;
}

TEST_CASE("the port is kept from who binds it plainly, and from who reuses addresses once rank 0 listens") {
  const Socket bound = *BindFreePort();
  const HostPort place = {"127.0.0.1", LocalPort(bound)};
  CHECK_FALSE(CanBind(place.port));
  CHECK(CanBind(place.port, /*reuse=*/true));  // as rank 0 does it where its descriptor was lost
  // A server that came first is an error of rank 0's that says so.
  {
    const absl::StatusOr<Socket> server = Listen(place);
    REQUIRE(server.ok());
    CHECK(Failures(RunRanks(1, absl::Seconds(20), [&](const World&) -> absl::Status {
            HandOver(bound);
            DISTILL_RETURN_IF_ERROR(Expect(!TakeHandedSocket(place).open(), "listens where another one does"));
            return ExpectError(Listen(place).status(), absl::StatusCode::kUnavailable,
                               {"cannot listen on 127.0.0.1:", "Address already in use"});
          })) == "");
  }
  REQUIRE(listen(bound.fd(), 1) == 0);
  CHECK_FALSE(CanBind(place.port, /*reuse=*/true));
}

// Linux 6.3 lets a socket name the ports that it may get.
#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51
#endif

TEST_CASE("the port is given to nobody who asks for any free one", "[port_range]") {
  const Socket bound = *BindFreePort(), target = *Listen({"127.0.0.1", "0"});
  const auto port = static_cast<uint32_t>(std::stoi(LocalPort(bound)));
  const uint32_t only_it = port << 16 | port;
  const auto with_it = [&] {
    Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(made.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return setsockopt(made.fd(), IPPROTO_IP, IP_LOCAL_PORT_RANGE, &only_it, sizeof(only_it)) == 0 ? std::move(made)
                                                                                                  : Socket();
  };
  const Socket binds = with_it(), connects = with_it();
  if (!binds.open()) {
    WARN("skipped: this kernel lets no socket choose its range of ports (Linux 6.3 does)");
    return;
  }
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(binds.fd(), reinterpret_cast<sockaddr*>(&any), sizeof(any)) != 0);
  CHECK(errno == EADDRINUSE);
  any.sin_port = htons(static_cast<uint16_t>(std::stoi(LocalPort(target))));
  CHECK(connect(connects.fd(), reinterpret_cast<sockaddr*>(&any), sizeof(any)) != 0);
  CHECK(errno == EADDRNOTAVAIL);
}

TEST_CASE("rank 0 listens on the socket that its launcher bound") {
  const Socket bound = *BindFreePort();
  const std::string port = LocalPort(bound);
  const ino_t inode = InodeOf(bound.fd());
  CHECK(Failures(RunRanks(3, absl::Seconds(30), [&](World world) -> absl::Status {
          world.rendezvous = absl::StrCat("127.0.0.1:", port);
          const Deadline deadline = Deadline::After(absl::Seconds(10));
          if (world.rank == 0) HandOver(bound);
          DISTILL_ASSIGN_OR_RETURN(const auto meeting, CreateRendezvous(world, deadline));
          DISTILL_RETURN_IF_ERROR(meeting->AllGather("x", deadline).status());
          DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
          if (world.rank == 0) {
            DISTILL_RETURN_IF_ERROR(Expect(InodeOf(bound.fd()) != inode, "rank 0 did not take the socket"));
          }
          // The launcher, and here the other ranks, too, still have it open.
          return Expect(!Connect({"127.0.0.1", port}, deadline).ok(), "the port is open after the meeting");
        })) == "");
}

// Each in a process of its own, whose environment it changes.
void InChild(const std::function<absl::Status()>& body) {
  CHECK(Failures(RunRanks(1, absl::Seconds(20), [&](const World&) { return body(); })) == "");
}

TEST_CASE("what is not the socket of the meeting is left alone, and rank 0 binds the port itself") {
  const Socket bound = *BindFreePort();
  const HostPort place = {"127.0.0.1", LocalPort(bound)};
  InChild([&] { return Expect(!TakeHandedSocket(place).open(), "took one that nobody handed over"); });
  InChild([&] {
    HandOver(bound);
    const HostPort other = {"127.0.0.1", "1"}, far = {"node0", place.port};
    DISTILL_RETURN_IF_ERROR(Expect(!TakeHandedSocket(other).open(), "took one for another port"));
    DISTILL_RETURN_IF_ERROR(Expect(!TakeHandedSocket(far).open(), "took loopback for another host"));
    DISTILL_RETURN_IF_ERROR(Expect(TakeHandedSocket(place).open(), "did not take it"));
    return Expect(!TakeHandedSocket(place).open(), "took it twice");
  });
  for (const std::string& text : std::initializer_list<std::string>{"", "x", absl::StrCat(bound.fd()),
                                                                    absl::StrCat(bound.fd(), ":1"), "0:0", "99:5"}) {
    INFO(text);
    InChild([&] {
      setenv(kRendezvousSocket, text.c_str(), 1);
      return Expect(!TakeHandedSocket(place).open() && fcntl(bound.fd(), F_GETFD) >= 0, "took it");
    });
  }
  // A wrapper closed it before it started the rank; the wrapper itself, or as here this test, still has it bound.
  const Socket kept = *BindFreePort();
  InChild([&] {
    const HostPort there = {"127.0.0.1", LocalPort(kept)};
    HandOver(kept);
    close(kept.fd());
    DISTILL_RETURN_IF_ERROR(Expect(!TakeHandedSocket(there).open(), "took a closed one"));
    return Listen(there).status();
  });
}

}  // namespace
}  // namespace distill
