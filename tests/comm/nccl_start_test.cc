// NCCL's start among ranks that are lost, fail or hang in it, with a fake NCCL: every rank ends within seconds, with
// the first cause. Ranks are processes; the joining's own time-out is 5 minutes, but where it is what is tested.
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/create.h"
#include "libdistill/comm/gpu.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/fake_nccl.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::AwaitAllRanks;
using testing::Expect;
using testing::ExpectError;
using testing::ExpectWithin;
using testing::Failures;
using testing::fake_nccl;
using testing::RunRanks;

constexpr int kRanks = 3;
// For what is to end "within seconds", on a busy machine.
constexpr absl::Duration kSeconds = absl::Seconds(30);
constexpr absl::Duration kHeartbeat = absl::Seconds(3);

absl::StatusOr<std::unique_ptr<Communicator>> Join(const World& world, absl::Duration timeout = absl::Minutes(5)) {
  CommunicatorOptions options;
  options.backend = BackendPreference::kNccl;
  options.timeout = timeout;
  options.heartbeat_timeout = kHeartbeat;
  options.device_index = world.rank;
  return CreateCommunicator(world, options);
}

// In a rank: the start fails with this, within seconds, and NCCL was told to end where it had begun.
absl::Status ExpectStartFails(const World& world, absl::StatusCode code, const std::vector<std::string>& parts,
                              absl::Duration timeout = absl::Minutes(5)) {
  DISTILL_RETURN_IF_ERROR(
      ExpectError(ExpectWithin(kSeconds, [&] { return Join(world, timeout).status(); }), code, parts));
  const bool began = fake_nccl().begin_result == ncclSuccess && fake_nccl().set_device_result == 0;
  return Expect(!began || fake_nccl().aborted == 1, "NCCL's start was not aborted");
}

std::string NameOf(const World& world, int rank) { return absl::StrCat("rank ", rank, " on ", world.host); }

// Answers of ncclCommGetAsyncError.
std::function<int()> Always(ncclResult_t state) {
  return [state] { return state; };
}
std::function<int()> After(absl::Duration time, ncclResult_t state) {
  return [end = absl::Now() + time, state] { return absl::Now() < end ? ncclInProgress : state; };
}

// All but `lost` end with Unavailable and its name.
void CheckLost(int lost, const std::function<void()>& lose) {
  const auto outcomes = RunRanks(kRanks, absl::Seconds(60), [&](const World& world) -> absl::Status {
    fake_nccl().state = Always(ncclInProgress);
    if (world.rank == lost) {
      fake_nccl().state = [&] {
        lose();
        return ncclInProgress;
      };
    }
    return ExpectStartFails(world, absl::StatusCode::kUnavailable, {NameOf(world, lost)});
  });
  testing::PrintTimes(absl::StrCat("rank ", lost, " is lost while NCCL starts"), outcomes);
  for (const auto& outcome : outcomes) {
    if (outcome.rank != lost) CHECK(outcome.status.ToString() == "OK");
  }
}

}  // namespace

TEST_CASE("a GPU that is older than this build has code for is refused, with what it is and what to do") {
  for (const int capability : {75, 80, 86, 89, 90, 100, 120}) {
    fake_nccl().capability = capability;
    CHECK(CheckGpuAge(0) == absl::OkStatus());
  }
  for (const int capability : {70, 61}) {
    fake_nccl().capability = capability;
    const std::string named = absl::StrCat("GPU 0 has compute capability ", capability / 10, ".", capability % 10);
    CHECK(ExpectError(CheckGpuAge(0), absl::StatusCode::kInvalidArgument, {named, "set device: cpu"}) ==
          absl::OkStatus());
  }
}

TEST_CASE("NCCL starts, and its ranks work together") {
  const auto outcomes = RunRanks(kRanks, absl::Seconds(60), [](const World& world) -> absl::Status {
    fake_nccl().state = After(absl::Milliseconds(50 * world.rank), ncclSuccess);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world));
    DISTILL_RETURN_IF_ERROR(Expect(comm->backend() == "nccl", "over another backend"));
    return comm->Barrier();
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("a rank that is killed while NCCL starts is named by the others within seconds") {
  const int lost = GENERATE(0, 2);
  CheckLost(lost, [] { raise(SIGKILL); });
}

TEST_CASE("a rank that is stopped while NCCL starts is named by the others within seconds") {
  CheckLost(1, [] { raise(SIGSTOP); });
}

TEST_CASE("a rank's own error while NCCL starts is every rank's within seconds, though NCCL never ends on the others") {
  const int failing = GENERATE(0, 2);
  const auto outcomes = RunRanks(kRanks, absl::Seconds(60), [&](const World& world) {
    fake_nccl().state =
        world.rank == failing ? After(absl::Milliseconds(200), ncclSystemError) : Always(ncclInProgress);
    return ExpectStartFails(world, absl::StatusCode::kUnavailable,
                            {absl::StrCat(NameOf(world, failing), ": starting NCCL (comm_backend shm goes without it)"),
                             "ncclCommInitRankConfig: system error: what the fake NCCL met"});
  });
  testing::PrintTimes(absl::StrCat("NCCL's start fails on rank ", failing), outcomes);
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("the first cause counts where the others' NCCL sees a connection end before they hear why") {
  const auto outcomes = RunRanks(kRanks, absl::Seconds(60), [](const World& world) {
    fake_nccl().state = world.rank == 1 ? After(absl::Milliseconds(300), ncclInternalError) : Always(ncclRemoteError);
    return ExpectStartFails(world, absl::StatusCode::kUnavailable, {NameOf(world, 1)});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("a rank whose NCCL is ready hears of another one's error at once") {
  const auto outcomes = RunRanks(kRanks, absl::Seconds(60), [](const World& world) {
    if (world.rank == 1) fake_nccl().state = After(absl::Milliseconds(200), ncclInternalError);
    return ExpectStartFails(world, absl::StatusCode::kUnavailable, {NameOf(world, 1), "starting NCCL"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("a rank that cannot begin is named by all before anyone waits for it in NCCL") {
  const bool has_device = GENERATE(true, false);
  const auto outcomes = RunRanks(kRanks, absl::Seconds(60), [&](const World& world) {
    fake_nccl().state = Always(ncclInProgress);
    if (world.rank == 2) (has_device ? fake_nccl().begin_result : fake_nccl().set_device_result) = 2;
    const bool began = has_device && world.rank != 2;
    DISTILL_RETURN_IF_ERROR(ExpectError(ExpectWithin(kSeconds, [&] { return Join(world).status(); }),
                                        has_device ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal,
                                        {NameOf(world, 2), has_device ? "ncclCommInitRankConfig" : "cudaSetDevice"}));
    return Expect(fake_nccl().aborted == (began ? 1 : 0), "what began was not aborted, or what did not was");
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("a rank that hangs as it begins is named at the joining's deadline") {
  constexpr absl::Duration kTimeout = absl::Seconds(3);
  const auto outcomes = RunRanks(kRanks, absl::Seconds(60), [&](const World& world) -> absl::Status {
    fake_nccl().begin = [&] {
      if (world.rank != 1) return;
      AwaitAllRanks().IgnoreError();  // the others come when they have ended
      raise(SIGKILL);
    };
    DISTILL_RETURN_IF_ERROR(ExpectStartFails(world, absl::StatusCode::kDeadlineExceeded, {"rank 1"}, kTimeout));
    return AwaitAllRanks();
  });
  CHECK(outcomes[0].status.ToString() == "OK");
  CHECK(outcomes[2].status.ToString() == "OK");
}

TEST_CASE("a start of NCCL that ends nowhere ends at the joining's deadline, also where its abort hangs") {
  constexpr absl::Duration kTimeout = absl::Seconds(3);
  const auto outcomes = RunRanks(kRanks, absl::Seconds(60), [&](const World& world) {
    fake_nccl().state = Always(ncclInProgress);
    if (world.rank == 1) fake_nccl().abort = [] { absl::SleepFor(absl::Minutes(10)); };
    return ExpectStartFails(world, absl::StatusCode::kDeadlineExceeded,
                            {absl::StrCat("on ", world.host), "starting NCCL", "took longer than 3s"}, kTimeout);
  });
  testing::PrintTimes("NCCL's start ends nowhere, in 3 s", outcomes);
  CHECK(Failures(outcomes) == "");
}

}  // namespace distill
