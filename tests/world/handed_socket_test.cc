#include "libdistill/world/handed_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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
using testing::Failures;
using testing::RunRanks;

bool CanBind(const std::string& port) {
  const Socket other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
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

TEST_CASE("rank 0 listens on the socket that its launcher bound, which nobody else gets meanwhile") {
  const Socket bound = *BindFreePort();
  const std::string port = LocalPort(bound);
  const ino_t inode = InodeOf(bound.fd());
  CHECK(Failures(RunRanks(3, absl::Seconds(30), [&](World world) -> absl::Status {
          world.rendezvous = absl::StrCat("127.0.0.1:", port);
          DISTILL_RETURN_IF_ERROR(Expect(!CanBind(port), "another process got the port"));
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
