// Losses between ranks that play two hosts: every survivor, beside the lost rank or beyond the fabric, returns the call
// that failed, by its number in the job, with the lost rank by its rank in the job.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/deadline.h"
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
using testing::JoinForCallsOf;
using testing::RankOutcome;
using testing::RunJobs;
using testing::RunRanks;

constexpr absl::Duration kHeartbeat = absl::Seconds(2);

// Ranks 0 and 2 are on host A, the others on host B.
std::string HostOf(int rank) { return rank % 2 == 0 ? "host-a" : "host-b"; }

absl::StatusOr<std::unique_ptr<Communicator>> Join(World world) {
  setenv("FI_TCP_IFACE", "lo", 1);
  world.host = world.host_id = HostOf(world.rank);
  CommunicatorOptions options;
  options.timeout = absl::Seconds(60);
  options.heartbeat_timeout = kHeartbeat;
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, options));
  DISTILL_RETURN_IF_ERROR(Expect(comm->backend() == "shm+fabric", absl::StrCat("over ", comm->backend())));
  comm->SetErrorContext([] { return "step 5"; });
  return comm;
}

// Long enough calls that a loss falls into the middle of one, most of the time.
absl::Status ReduceForever(Communicator& comm) {
  std::vector<float> data(4 << 20, 1.0f);
  for (;;) {
    DISTILL_RETURN_IF_ERROR(comm.AllReduce(data.data(), data.data(), 4 << 20, DType::kFloat32, ReduceOp::kMax));
  }
}

void CheckSurvivors(const std::vector<RankOutcome>& outcomes, int lost) {
  for (const RankOutcome& outcome : outcomes) {
    if (outcome.rank == lost) continue;
    CHECK(outcome.ended);
    CHECK(Failures({outcome}) == "");
  }
}

absl::Status ExpectLoss(const absl::Status& status, int rank, int lost) {
  return ExpectError(status, absl::StatusCode::kUnavailable,
                     {absl::StrCat(" over shm+fabric failed on rank ", rank, " on ", HostOf(rank), " of "), "(step 5)",
                      absl::StrCat("rank ", lost, " on ", HostOf(lost), " was lost")});
}

TEST_CASE("a killed rank ends every rank's all-reduce in two levels, by its rank in the job") {
  constexpr int kLost[] = {0, 1, 3};
  const auto jobs = RunJobs(3, 4, absl::Seconds(40), [&](int job, const World& world) -> absl::Status {
    const int lost = kLost[job];
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
    if (world.rank == lost) {
      if (fork() == 0) {  // kills in the middle of a call
        absl::SleepFor(absl::Milliseconds(300));
        kill(getppid(), SIGKILL);
        _exit(0);
      }
    }
    const absl::Status status = ExpectWithin(absl::Seconds(15), [&] { return ReduceForever(*comm); });
    DISTILL_RETURN_IF_ERROR(ExpectLoss(status, world.rank, lost));
    return Expect(comm->Barrier() == status, "not poisoned");
  });
  for (size_t job = 0; job < jobs.size(); ++job) {
    CHECK(jobs[job][static_cast<size_t>(kLost[job])].signal == SIGKILL);
    CheckSurvivors(jobs[job], kLost[job]);
  }
}

TEST_CASE("the call that a killed rank does not make has its number in the job on every rank") {
  const auto jobs = RunJobs(2, 5, absl::Seconds(40), [](int job, const World& world) -> absl::Status {
    const int lost = 2 + job;
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world));
    std::vector<float> data(1 << 20, 1.0f);
    for (int i = 0; i < 3; ++i) {
      DISTILL_RETURN_IF_ERROR(comm->AllReduce(data.data(), data.data(), 1 << 20, DType::kFloat32, ReduceOp::kMax));
    }
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
    if (world.rank == lost) kill(getpid(), SIGKILL);
    const absl::Status status = ExpectWithin(absl::Seconds(15), [&] {
      return comm->AllReduce(data.data(), data.data(), 1 << 20, DType::kFloat32, ReduceOp::kMax);
    });
    DISTILL_RETURN_IF_ERROR(ExpectLoss(status, world.rank, lost));
    return ExpectError(status, absl::StatusCode::kUnavailable, {"all-reduce number 4 over shm+fabric failed on"});
  });
  for (const int job : {0, 1}) CheckSurvivors(jobs[static_cast<size_t>(job)], 2 + job);
}

TEST_CASE("a stopped rank ends every rank's all-reduce in two levels within the heartbeat's time-out") {
  constexpr int kLost[] = {0, 3};
  const auto jobs = RunJobs(2, 4, absl::Seconds(40), [&](int job, const World& world) -> absl::Status {
    const int lost = kLost[job];
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
    if (world.rank == lost && fork() == 0) {
      absl::SleepFor(absl::Milliseconds(300));
      kill(getppid(), SIGSTOP);
      _exit(0);
    }
    // Counted from before the stop, in which ranks of a loaded machine may come late to their first call.
    const auto reduce = [&] { return ReduceForever(*comm); };
    return ExpectLoss(ExpectWithin(kHeartbeat + absl::Seconds(6), reduce), world.rank, lost);
  });
  for (size_t job = 0; job < jobs.size(); ++job) {
    CHECK(!jobs[job][static_cast<size_t>(kLost[job])].ended);
    CheckSurvivors(jobs[job], kLost[job]);
  }
}

TEST_CASE("an abort ends the pending calls of every rank in two levels") {
  const auto outcomes = RunRanks(4, absl::Seconds(30), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());  // nobody is still joining
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
    absl::Status status;
    if (world.rank == 3) {  // never makes the call
      absl::SleepFor(absl::Milliseconds(500));
      comm->Abort(absl::DataLossError("the disk is gone"));
      status = comm->Barrier();
    } else {
      status = ExpectWithin(absl::Seconds(10), [&] { return ReduceForever(*comm); });
    }
    DISTILL_RETURN_IF_ERROR(ExpectError(status, absl::StatusCode::kDataLoss, {"number 2 over", "the disk is gone"}));
    return Expect(comm->Barrier() == status, "not poisoned");
  });
  CheckSurvivors(outcomes, -1);
}

TEST_CASE("a rank that never makes the call runs those of its host into the deadline, and all hear of it") {
  const auto outcomes = RunRanks(4, absl::Seconds(30), [](const World& world) -> absl::Status {
    const std::vector<std::string> hosts = {HostOf(0), HostOf(1), HostOf(2), HostOf(3)};
    DISTILL_ASSIGN_OR_RETURN(const auto comm,
                             JoinForCallsOf(absl::Seconds(4), world, BackendPreference::kHierarchical, hosts));
    if (world.rank == 3) {  // is there until the others have failed: one that leaves is another error
      const Deadline patience = Deadline::After(absl::Seconds(20));
      while (comm->CheckPeers().ok() && !patience.Passed()) absl::SleepFor(absl::Milliseconds(10));
      absl::SleepFor(absl::Seconds(4));  // those of its host have failed, and ask rank 0 why
      return absl::OkStatus();
    }
    std::vector<float> data(1 << 20);
    const absl::Status status = ExpectWithin(absl::Seconds(15), [&] {
      return comm->AllReduce(data.data(), data.data(), 1 << 20, DType::kFloat32, ReduceOp::kSum);
    });
    return ExpectError(status, absl::StatusCode::kDeadlineExceeded,
                       {"all-reduce number 1 over shm+fabric", "waiting for rank 3 on host-b", "took longer than 4s"});
  });
  CheckSurvivors(outcomes, -1);
}

TEST_CASE("ranks that call different collectives in two levels end with an error, not a hang") {
  const auto outcomes = RunRanks(4, absl::Seconds(30), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());                      // nobody is still joining
    if (world.rank == 3) absl::SleepFor(absl::Milliseconds(500));  // nor in the barrier
    float x = 0;
    const absl::Status status = ExpectWithin(absl::Seconds(10), [&] {
      return world.rank == 3 ? comm->Barrier() : comm->AllReduce(&x, &x, 1, DType::kFloat32, ReduceOp::kSum);
    });
    return ExpectError(
        status, absl::StatusCode::kFailedPrecondition,
        {"number 2 over shm+fabric", "ranks do not make the same calls", "rank 3 on host-b calls barrier"});
  });
  CheckSurvivors(outcomes, -1);
}

TEST_CASE("ranks that have finished their last call in two levels may go while others are still in it") {
  const auto outcomes = RunRanks(4, absl::Seconds(30), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(auto comm, Join(world));
    std::vector<char> data(5000, static_cast<char>(world.rank));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    if (world.rank == 3) absl::SleepFor(absl::Milliseconds(500));
    DISTILL_RETURN_IF_ERROR(comm->Broadcast(data.data(), 5000, DType::kUInt8, 0));
    return Expect(data == std::vector<char>(5000, 0), "another rank's data");
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("a rank that leaves before the others need it is named in two levels") {
  const auto outcomes = RunRanks(4, absl::Seconds(30), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(auto comm, Join(world));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    if (world.rank == 2) return absl::OkStatus();
    return ExpectError(ExpectWithin(absl::Seconds(8), [&] { return comm->Barrier(); }), absl::StatusCode::kUnavailable,
                       {"barrier number 2 over shm+fabric", "rank 2 on host-a has left the job"});
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
