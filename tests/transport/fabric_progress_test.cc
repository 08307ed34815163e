#include "libdistill/transport/fabric_progress.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "absl/time/clock.h"
#include "libdistill/core/deadline.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

std::unique_ptr<FabricEndpoint> LoopbackEndpoint() {
  setenv("FI_TCP_IFACE", "lo", 1);
  absl::StatusOr<std::unique_ptr<FabricEndpoint>> made = FabricEndpoint::Create({"tcp", "", 0, ""});
  INFO(made.status());
  REQUIRE(made.ok());
  return *std::move(made);
}

// Two endpoints with a thread each; peer 0 of one is the other.
struct Threads {
  explicit Threads(bool spins) {
    std::unique_ptr<FabricEndpoint> a = LoopbackEndpoint(), b = LoopbackEndpoint();
    REQUIRE(a->Connect({b->address(), a->address()}, {"b", "a"}).ok());
    REQUIRE(b->Connect({a->address(), b->address()}, {"a", "b"}).ok());
    left = FabricProgress::Start(std::move(a), spins).value();
    right = FabricProgress::Start(std::move(b), spins).value();
  }
  std::unique_ptr<FabricProgress> left, right;
  FabricMemory nothing;
};

absl::Duration CpuTime() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

TEST_CASE("work runs on the endpoint's thread, and work inside work at once") {
  for (const bool spins : {false, true}) {
    const auto progress = FabricProgress::Start(LoopbackEndpoint(), spins).value();
    std::thread::id outer, inner;
    for (int i = 0; i < 1000; ++i) {
      const absl::Status status = progress->Run([&] {
        outer = std::this_thread::get_id();
        return progress->Run([&] {
          inner = std::this_thread::get_id();
          return i % 2 == 0 ? absl::OkStatus() : absl::CancelledError("odd");
        });
      });
      REQUIRE(status.ok() == (i % 2 == 0));
    }
    CHECK(outer != std::this_thread::get_id());
    CHECK(inner == outer);
  }
}

// Nobody but the two threads polls: one sends to make the connection, the other receives between its calls.
TEST_CASE("an endpoint continues to receive while no call is under way") {
  Threads threads(false);
  std::vector<char> out(3 << 20, 'x'), in(out.size());
  FabricOperation send, receive;
  REQUIRE(
      threads.right
          ->Run([&] {
            return threads.right->endpoint().Receive(0, 7, in.data(), in.size(), threads.nothing, &receive).status();
          })
          .ok());
  const Deadline deadline = Deadline::After(absl::Seconds(20));
  const absl::Status sent = threads.left->Run([&]() -> absl::Status {
    FabricEndpoint& endpoint = threads.left->endpoint();
    for (bool posted = false; !deadline.Passed() && !(posted && send.done);) {
      if (!posted) posted = endpoint.Send(0, 7, out.data(), out.size(), threads.nothing, &send).value_or(false);
      const absl::Status polled = endpoint.Poll().status();
      if (!polled.ok()) return polled;
    }
    return send.status;
  });
  CHECK(sent.ok());
  bool done = false;
  while (!done && !deadline.Passed()) {
    REQUIRE(threads.right->Run([&] { return done = receive.done, receive.status; }).ok());
    absl::SleepFor(absl::Milliseconds(1));
  }
  REQUIRE(done);
  CHECK(in == out);
}

TEST_CASE("a thread without work leaves the cores alone") {
  for (const bool spins : {false, true}) {
    Threads threads(spins);
    REQUIRE(threads.left->Run([] { return absl::OkStatus(); }).ok());
    const absl::Duration before = CpuTime();
    absl::SleepFor(absl::Milliseconds(400));
    CHECK(CpuTime() - before < absl::Milliseconds(100));
  }
}

TEST_CASE("sleeping ends when the other descriptor has something, or the time is over") {
  const std::unique_ptr<FabricEndpoint> endpoint = LoopbackEndpoint();
  CHECK(endpoint->wakes());
  CHECK_FALSE(endpoint->progresses_alone());
  endpoint->Sleep(absl::Milliseconds(5), -1);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(write(ends[1], "x", 1) == 1);
  const absl::Time start = absl::Now();
  endpoint->Sleep(absl::Seconds(60), ends[0]);
  CHECK(absl::Now() - start < absl::Seconds(60));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace distill
