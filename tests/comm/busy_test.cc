// Ranks that work outside of calls while the others wait, and ranks that do not end once their job has failed.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/busy_phase.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/comm/load_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::ExpectWithin;
using testing::Failures;
using testing::JoinForCallsOf;
using testing::RunJobs;
using testing::RunRanks;

constexpr absl::Duration kTimeout = absl::Seconds(2);
constexpr absl::Duration kWork = absl::Seconds(4);
constexpr BackendPreference kAllBackends[] = {BackendPreference::kShm, BackendPreference::kFabric,
                                              BackendPreference::kHierarchical};

// Rank 0 and 1 on one host where there are two levels.
absl::StatusOr<std::unique_ptr<Communicator>> JoinOver(BackendPreference backend, const World& world) {
  std::vector<std::string> hosts(static_cast<size_t>(world.world_size), "host-a");
  if (backend == BackendPreference::kHierarchical) hosts.back() = "host-b";
  return JoinForCallsOf(kTimeout, world, backend, hosts);
}

absl::Status ReduceOver(Communicator& comm, int64_t count) {
  std::vector<float> data(static_cast<size_t>(count), 1.0f);
  return comm.AllReduce(data.data(), data.data(), count, DType::kFloat32, ReduceOp::kMax);
}

TEST_CASE("a rank that says what it works at is waited for, in calls large and small and in those of splits") {
  testing::LoadFabric();
  const auto jobs = RunJobs(3, 3, absl::Seconds(60), [](int job, const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, JoinOver(kAllBackends[job], world));
    DISTILL_ASSIGN_OR_RETURN(const auto part, comm->Split(0, -world.rank));
    for (const int64_t count : {int64_t{1}, int64_t{1} << 20}) {
      std::optional<BusyPhase> phase;
      if (world.rank == 1) phase.emplace(*comm, "reading a file");
      if (world.rank == 1) absl::SleepFor(kWork);
      phase.reset();
      DISTILL_RETURN_IF_ERROR(ReduceOver(count == 1 ? *comm : *part, count));
    }
    if (world.rank == 2) {  // the others wait before the phase begins
      absl::SleepFor(kTimeout / 4);
      const BusyPhase phase(*comm, "saving a checkpoint");
      absl::SleepFor(kWork);
    }
    return comm->Barrier();
  });
  for (const auto& outcomes : jobs) CHECK(Failures(outcomes) == "");
}

TEST_CASE("a rank that is over the limit of what it works at ends the others, by name, with what and how long") {
  testing::LoadFabric();
  const auto jobs = RunJobs(3, 3, absl::Seconds(60), [](int job, const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, JoinOver(kAllBackends[job], world));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    if (world.rank == 1) {
      const BusyPhase outer(*comm, "starting");
      const BusyPhase phase(*comm, "reading a file", absl::Seconds(3));
      const Deadline patience = Deadline::After(absl::Seconds(30));
      while (comm->CheckPeers().ok() && !patience.Passed()) absl::SleepFor(absl::Milliseconds(10));
      absl::SleepFor(absl::Seconds(4));  // those of its host have failed, and ask rank 0 why
      return absl::OkStatus();
    }
    const absl::Time start = absl::Now();
    const absl::Status status = ExpectWithin(absl::Seconds(25), [&] { return comm->Barrier(); });
    DISTILL_RETURN_IF_ERROR(
        Expect(absl::Now() - start > absl::Seconds(4), absl::StrCat("too early: ", status.message())));
    return ExpectError(status, absl::StatusCode::kDeadlineExceeded,
                       {"barrier number 2", "; rank 1 on host-a has been reading a file for ",
                        ", longer than the 3s that this may take (phase_timeout_seconds)"});
  });
  for (const auto& outcomes : jobs) CHECK(Failures(outcomes) == "");
}

TEST_CASE("ranks that wait for one another in calls run into the time-out, whatever they say", "[one_host]") {
  const auto outcomes = RunRanks(2, absl::Seconds(60), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, JoinOver(BackendPreference::kShm, world));
    const BusyPhase phase(*comm, "starting");
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    float value = 0;
    const absl::Status status = ExpectWithin(absl::Seconds(20), [&] {
      return world.rank == 0 ? comm->Barrier() : comm->Receive(&value, 1, DType::kFloat32, 0);
    });
    return Expect(absl::IsDeadlineExceeded(status), status.message());
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("a rank is lost to silence as soon as the ranks have met, before the first call", "[one_host]") {
  const auto outcomes = RunRanks(2, absl::Seconds(40), [](const World& world) -> absl::Status {
    if (world.rank == 1) {
      DISTILL_ASSIGN_OR_RETURN(const auto met, CreateRendezvous(world, Deadline::After(absl::Seconds(20))));
      kill(getpid(), SIGSTOP);
    }
    const auto comm = testing::Join(world, {.timeout = absl::Seconds(60), .heartbeat_timeout = absl::Seconds(2)});
    return ExpectError(comm.status(), absl::StatusCode::kUnavailable, {"rank 1 on ", "nothing heard from it for 2s"});
  });
  CHECK(Failures({outcomes[0]}) == "");
}

// What rank 0 prints, and its outcome, when it does `work` while rank 1 is killed; the grace period is a second.
testing::RankOutcome LoseRankOne(const std::function<void(std::unique_ptr<Communicator>&)>& work, std::string& text) {
  const testing::TempFolder folder;
  const std::string path = folder.Write("stderr", "");
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0);
  const auto outcomes = RunRanks(2, absl::Seconds(40), [&](const World& world) -> absl::Status {
    if (world.rank == 0) dup2(file, STDERR_FILENO);
    DISTILL_ASSIGN_OR_RETURN(auto comm,
                             testing::Join(world, {.timeout = absl::Seconds(60), .abort_grace = absl::Seconds(1)}));
    DISTILL_RETURN_IF_ERROR(testing::AwaitAllRanks());
    if (world.rank == 1) kill(getpid(), SIGKILL);
    work(comm);
    return absl::OkStatus();
  });
  close(file);
  text = folder.Read("stderr");
  return outcomes[0];
}

TEST_CASE("the watchdog ends a rank that hangs outside of calls once a peer is lost, and says what it was doing",
          "[one_host]") {
  const bool says = GENERATE(false, true);
  CAPTURE(says);
  std::string text;
  const auto outcome = LoseRankOne(
      [says](std::unique_ptr<Communicator>& comm) {
        std::optional<BusyPhase> phase;
        if (says) phase.emplace(*comm, "saving a checkpoint");
        absl::SleepFor(absl::Seconds(30));
      },
      text);
  CHECK(outcome.ended);
  CHECK(outcome.took < absl::Seconds(15));
  INFO(text);
  CHECK(absl::StrContains(text, "the watchdog ends this process: rank 0 on "));
  CHECK(
      absl::StrContains(text, says ? " is still saving a checkpoint for " : " is still there, outside of collectives"));
  CHECK(absl::StrContains(text, ", 1s after it had to end: rank 1 on "));
  CHECK(absl::StrContains(text, " was lost"));
}

TEST_CASE("the watchdog leaves a program alone that goes on without the communicator of the failed job", "[one_host]") {
  std::string text;
  const auto outcome = LoseRankOne(
      [](std::unique_ptr<Communicator>& comm) {
        while (comm->CheckPeers().ok()) absl::SleepFor(absl::Milliseconds(10));
        comm.reset();
        absl::SleepFor(absl::Seconds(3));
      },
      text);
  CHECK(Failures({outcome}) == "");
  CHECK(text.find("watchdog") == std::string::npos);
}

}  // namespace
}  // namespace distill
