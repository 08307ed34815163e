// Ranks that are killed, that leave and that never come: the others end in time, with an error that names them.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::AwaitAllRanks;
using testing::Expect;
using testing::ExpectError;
using testing::ExpectWithin;
using testing::Failures;
using testing::Join;
using testing::JoinForCallsOf;
using testing::RunJobs;
using testing::RunRanks;

// Makes no call, but is there until the others have failed: one that leaves is another error.
void AwaitFailure(Communicator& comm) {
  const Deadline patience = Deadline::After(absl::Seconds(20));
  while (comm.CheckPeers().ok() && !patience.Passed()) absl::SleepFor(absl::Milliseconds(10));
}

// All-reduces until it fails.
absl::Status ReduceForever(Communicator& comm, std::vector<float>& data) {
  for (;;) {
    DISTILL_RETURN_IF_ERROR(
        comm.AllReduce(data.data(), data.data(), static_cast<int64_t>(data.size()), DType::kFloat32, ReduceOp::kMax));
  }
}

TEST_CASE("a killed rank fails the others' all-reduce within seconds, by name") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(3, absl::Seconds(40), [&backend](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, {.backend = backend, .timeout = absl::Seconds(30)}));
      comm->SetErrorContext([] { return "step 5"; });
      std::vector<float> data(1 << 20, 1.0f);
      for (int i = 0; i < 3; ++i) {
        DISTILL_RETURN_IF_ERROR(comm->AllReduce(data.data(), data.data(), 1 << 20, DType::kFloat32, ReduceOp::kMax));
      }
      DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
      if (world.rank == 2) kill(getpid(), SIGKILL);
      const absl::Status status = ExpectWithin(absl::Seconds(10), [&] { return ReduceForever(*comm, data); });
      DISTILL_RETURN_IF_ERROR(ExpectError(status, absl::StatusCode::kUnavailable,
                                          {absl::StrCat("all-reduce number 4 over ", FieldText(backend),
                                                        " failed on rank ", world.rank, " on ", world.host),
                                           "(step 5)", absl::StrCat("rank 2 on ", world.host, " was lost")}));
      return Expect(comm->Barrier() == status, "not poisoned");
    });
    CHECK(outcomes[2].signal == SIGKILL);
    testing::PrintTimes(absl::StrCat("SIGKILL of rank 2 over ", FieldText(backend)), outcomes);
    CHECK(Failures({outcomes[0], outcomes[1]}) == "");
  }
}

TEST_CASE("a killed rank 0 is named as well") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(2, absl::Seconds(40), [&backend](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, {.backend = backend, .timeout = absl::Seconds(30)}));
      DISTILL_RETURN_IF_ERROR(comm->Barrier());
      DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
      if (world.rank == 0) kill(getpid(), SIGKILL);
      return ExpectError(ExpectWithin(absl::Seconds(10), [&] { return comm->Barrier(); }),
                         absl::StatusCode::kUnavailable, {"barrier number 2", "rank 0 ", "was lost"});
    });
    testing::PrintTimes(absl::StrCat("SIGKILL of rank 0 over ", FieldText(backend)), outcomes);
    CHECK(Failures({outcomes[1]}) == "");
  }
}

// The jobs of a test that mostly waits, all at one time.
constexpr absl::Duration kTimeout = absl::Seconds(3);

TEST_CASE("a rank that never makes the call runs into the deadline, by name") {
  const auto jobs = RunJobs(2, 2, absl::Seconds(30), [](int job, const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm,
                             JoinForCallsOf(kTimeout, world, testing::kBackends[job], {world.host, world.host}));
    if (world.rank == 1) {
      AwaitFailure(*comm);
      return absl::OkStatus();
    }
    std::vector<char> data(3 << 20);
    const absl::Time start = absl::Now();
    const absl::Status status = comm->AllReduce(data.data(), data.data(), 3 << 20, DType::kUInt8, ReduceOp::kMax);
    const absl::Duration took = absl::Now() - start;
    DISTILL_RETURN_IF_ERROR(Expect(took > kTimeout - absl::Milliseconds(100) && took < kTimeout + absl::Seconds(8),
                                   absl::StrCat("took ", absl::FormatDuration(took))));
    return ExpectError(status, absl::StatusCode::kDeadlineExceeded,
                       {"all-reduce number 1", absl::StrCat("rank 1 on ", world.host), "took longer than 3s"});
  });
  for (const auto& outcomes : jobs) CHECK(Failures(outcomes) == "");
}

TEST_CASE("a stopped rank runs the others into the deadline, by name") {
  const auto jobs = RunJobs(2, 2, absl::Seconds(30), [](int job, const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm,
                             JoinForCallsOf(kTimeout, world, testing::kBackends[job], {world.host, world.host}));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
    if (world.rank == 1) kill(getpid(), SIGSTOP);
    std::vector<float> data(1000);
    return ExpectError(ReduceForever(*comm, data), absl::StatusCode::kDeadlineExceeded,
                       {absl::StrCat("rank 1 on ", world.host)});
  });
  for (const auto& outcomes : jobs) {
    CHECK(Failures({outcomes[0]}) == "");
    CHECK(outcomes[0].ended);
    CHECK(!outcomes[1].ended);
  }
}

TEST_CASE("a rank that gives up tells the others why") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(3, absl::Seconds(30), [&backend](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, {.backend = backend, .timeout = absl::Seconds(20)}));
      float x = 0;
      if (world.rank == 1) {
        // The others have joined: their joining would end with the error as well.
        for (const int peer : {0, 2}) DISTILL_RETURN_IF_ERROR(comm->Receive(&x, 1, DType::kFloat32, peer));
        return Expect(!comm->Broadcast(&x, 1, DType::kFloat32, -5).ok(), "root -5 was taken");
      }
      (void)comm->Send(&x, 1, DType::kFloat32, 1);
      const absl::Status status = comm->Barrier();
      return Expect(absl::StrContains(status.message(), absl::StrCat("rank 1 on ", world.host)) &&
                        absl::StrContains(status.message(), "root -5 in a world of 3"),
                    status.ToString());
    });
    CHECK(Failures(outcomes) == "");
  }
}

TEST_CASE("a rank that ends before the others need it is named at once, one that is done is no error") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(3, absl::Seconds(30), [&backend](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(auto comm, Join(world, {.backend = backend, .timeout = absl::Seconds(20)}));
      DISTILL_RETURN_IF_ERROR(comm->Barrier());
      if (world.rank == 1) absl::SleepFor(absl::Milliseconds(500));  // the others wait, and one has gone by then
      DISTILL_RETURN_IF_ERROR(comm->Barrier());
      if (world.rank == 2) comm.reset();
      DISTILL_RETURN_IF_ERROR(testing::AwaitAllRanks());  // an error of one's third barrier would end another's second
      if (world.rank == 2) return absl::OkStatus();
      return ExpectError(ExpectWithin(absl::Seconds(5), [&] { return comm->Barrier(); }),
                         absl::StatusCode::kUnavailable, {absl::StrCat("rank 2 on ", world.host, " has left the job")});
    });
    CHECK(Failures(outcomes) == "");
  }
}

TEST_CASE("ranks that finish a broadcast early may go while it still travels") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(4, absl::Seconds(30), [&backend](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(auto comm, Join(world, {.backend = backend, .timeout = absl::Seconds(20)}));
      std::vector<char> data(5000, static_cast<char>(world.rank));
      DISTILL_RETURN_IF_ERROR(comm->Barrier());
      if (world.rank == 3) absl::SleepFor(absl::Milliseconds(500));  // ranks 0 and 1 have gone by then
      DISTILL_RETURN_IF_ERROR(comm->Broadcast(data.data(), 5000, DType::kUInt8, 0));
      return Expect(data == std::vector<char>(5000, 0), "another rank's data");
    });
    CHECK(Failures(outcomes) == "");
  }
}

TEST_CASE("a rank that asks hears of a lost peer without a collective") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(2, absl::Seconds(30), [&backend](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, {.backend = backend, .timeout = absl::Seconds(20)}));
      DISTILL_RETURN_IF_ERROR(comm->CheckPeers());
      DISTILL_RETURN_IF_ERROR(comm->Barrier());
      DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
      if (world.rank == 1) kill(getpid(), SIGKILL);
      absl::Status status;
      for (const Deadline deadline = Deadline::After(absl::Seconds(5)); status.ok() && !deadline.Passed();) {
        status = comm->CheckPeers();
      }
      return ExpectError(status, absl::StatusCode::kUnavailable, {"rank 1 on ", "was lost"});
    });
    CHECK(Failures({outcomes[0]}) == "");
  }
}

TEST_CASE("ranks that never start are listed on those that did", "[one_host]") {
  const auto outcomes = RunRanks(3, absl::Seconds(20), [](const World& world) {
    if (world.rank == 2) return absl::OkStatus();
    return ExpectError(Join(world, {.backend = BackendPreference::kAuto, .timeout = absl::Seconds(1)}).status(),
                       absl::StatusCode::kDeadlineExceeded, {"waiting for rank 2 of 3 to join"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("calls of different lengths over the fabric are an error, not a hang") {
  const auto outcomes = RunRanks(2, absl::Seconds(30), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm,
                             Join(world, {.backend = BackendPreference::kFabric, .timeout = absl::Seconds(10)}));
    std::vector<float> data(1000);
    const absl::Status status =
        comm->AllReduce(data.data(), data.data(), world.rank == 0 ? 1000 : 900, DType::kFloat32, ReduceOp::kSum);
    return Expect(absl::IsFailedPrecondition(status), status.ToString());
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
