#include "libdistill/world/name_lookup.h"

#include <atomic>

#include "absl/time/clock.h"
#include "libdistill/world/socket.h"
#include "libdistill/world/tcp_rendezvous.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::ExpectError;

std::atomic<int> lookups{0};
std::atomic<bool> answers{false};

// A name server that does not answer until it is told to.
int Hang(const char*, const char*, const addrinfo*, addrinfo**) {
  ++lookups;
  answers.wait(false);
  return EAI_AGAIN;
}

TEST_CASE("a name that is not resolved in time is an error that names it, and one thread waits for it") {
  lookups = 0;
  answers = false;
  NameLookup names(&Hang);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const absl::Status status = names.Find("node0.invalid", "1", Deadline::After(absl::Milliseconds(100))).status();
    CHECK(ExpectError(status, absl::StatusCode::kDeadlineExceeded, {"node0.invalid", "/etc/resolv.conf"}).ok());
  }
  const Deadline patience = Deadline::After(absl::Seconds(60));  // until its thread runs
  while (lookups == 0 && !patience.Passed()) absl::SleepFor(absl::Milliseconds(1));
  CHECK(lookups == 1);
  // An address is no name, and no name server's business.
  const auto numeric = names.Find("127.0.0.1", "80", Deadline::After(absl::Seconds(5)));
  REQUIRE(numeric.ok());
  CHECK((*numeric)->ai_family == AF_INET);
  CHECK(lookups == 1);
  answers = true;
  answers.notify_all();
  const absl::Status told = names.Find("node0.invalid", "1", Deadline::After(absl::Seconds(30))).status();
  CHECK(ExpectError(told, absl::StatusCode::kUnavailable, {"cannot resolve node0.invalid"}).ok());
  CHECK(names.Find("node0.invalid", "1", Deadline::After(absl::Seconds(30))).status() == told);
  CHECK(lookups == 2);
}

TEST_CASE("listening, and joining on localhost, asks no name server") {
  const Deadline deadline = Deadline::After(absl::Seconds(30));
  const absl::StatusOr<Socket> listener = Listen({"localhost", "0"});
  REQUIRE(listener.ok());
  CHECK(LocalAddress(*listener) == "127.0.0.1");
  lookups = 0;
  NameLookup names(&Hang);
  const absl::StatusOr<Socket> joiner = Connect({"localhost", LocalPort(*listener)}, deadline, names);
  REQUIRE(joiner.ok());
  CHECK(LocalAddress(*joiner) == "127.0.0.1");
  CHECK(lookups == 0);
  // It begins as an address of loopback does, and is a name: refused as such, where a name server would be asked.
  const absl::Status status = Listen({"127.name.invalid", "0"}).status();
  CHECK(ExpectError(status, absl::StatusCode::kUnavailable,
                    {"cannot listen on 127.name.invalid:0", gai_strerror(EAI_NONAME)})
            .ok());
}

TEST_CASE("a rank whose name server does not answer gives up at its deadline, and says so") {
  answers = false;
  World world = testing::LocalWorld(1, 2, 1);
  world.rendezvous = "node0.invalid:29500";
  MeetingPlace place = {"tcp", Socket(), {{"node0.invalid", "29500"}}, &Hang};
  const absl::Status status = testing::ExpectWithin(absl::Seconds(20), [&] {
    return CreateTcpRendezvousAt(world, std::move(place), Deadline::After(absl::Seconds(1))).status();
  });
  CHECK(ExpectError(status, absl::StatusCode::kDeadlineExceeded,
                    {"joins rank 0 at node0.invalid:29500", "looking up the address of node0.invalid"})
            .ok());
  answers = true;
  answers.notify_all();
}

}  // namespace
}  // namespace distill
