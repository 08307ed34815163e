// A rank that never makes a call is named by ranks that wait for others which wait for it.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/comm/load_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::ExpectError;
using testing::Failures;
using testing::JoinForCallsOf;

constexpr int kRanks = 4;

struct LateCase {
  std::string name;
  int missing;
  bool two_hosts;  // ranks 0 and 1 on one, the others on the other
  std::function<absl::Status(Communicator&)> call;
};

std::function<absl::Status(Communicator&)> AllReduceOf(int64_t count) {
  return [count](Communicator& comm) {
    std::vector<float> data(static_cast<size_t>(count), 1.0f);
    return comm.AllReduce(data.data(), data.data(), count, DType::kFloat32, ReduceOp::kSum);
  };
}

absl::Status MissOne(const LateCase& one, const World& world) {
  std::vector<std::string> hosts(kRanks, world.host);
  if (one.two_hosts) hosts = {"host-a", "host-a", "host-b", "host-b"};
  const auto backend = one.two_hosts ? BackendPreference::kHierarchical : BackendPreference::kFabric;
  DISTILL_ASSIGN_OR_RETURN(const auto comm, JoinForCallsOf(absl::Seconds(5), world, backend, hosts));
  DISTILL_RETURN_IF_ERROR(comm->Barrier());
  if (world.rank == one.missing) {  // is there until the others have failed: one that leaves is another error
    const Deadline patience = Deadline::After(absl::Seconds(30));
    while (comm->CheckPeers().ok() && !patience.Passed()) absl::SleepFor(absl::Milliseconds(10));
    absl::SleepFor(absl::Seconds(4));  // those of its host have failed, and ask rank 0 why
    return absl::OkStatus();
  }
  // The deadline of a rank that does not wait for the missing one itself passes first.
  const int other = (one.missing + 2) % kRanks;
  if (world.rank != other) absl::SleepFor(absl::Milliseconds(300));
  return ExpectError(one.call(*comm), absl::StatusCode::kDeadlineExceeded,
                     {absl::StrCat("number 2 over ", comm->backend(), " failed on rank ", world.rank),
                      absl::StrCat("waiting for rank ", one.missing, " on ", hosts.back(),
                                   " to make call number 2 took longer than 5s")});
}

// All of them at one time: each only waits.
void CheckLate(const std::vector<LateCase>& cases) {
  testing::LoadFabric();
  const auto jobs =
      testing::RunJobs(static_cast<int>(cases.size()), kRanks, absl::Seconds(100),
                       [&](int job, const World& world) { return MissOne(cases[static_cast<size_t>(job)], world); });
  for (size_t job = 0; job < jobs.size(); ++job) {
    CAPTURE(cases[job].name);
    CHECK(Failures(jobs[job]) == "");
  }
}

TEST_CASE("over the fabric a time-out names the rank that never came, not a neighbour that waits for it") {
  const auto barrier = [](Communicator& comm) { return comm.Barrier(); };
  CheckLate({{"ring", 2, false, AllReduceOf(4 << 20)},
             {"1 KiB", 2, false, AllReduceOf(256)},
             {"barrier", 2, false, barrier},
             {"barrier without rank 0", 0, false, barrier}});
}

TEST_CASE("in two levels a time-out names the rank that never came, not one of this host that waits as well") {
  const auto barrier = [](Communicator& comm) { return comm.Barrier(); };
  CheckLate(
      {{"4 bytes", 3, true, AllReduceOf(1)}, {"4 MiB", 2, true, AllReduceOf(1 << 20)}, {"barrier", 3, true, barrier}});
}

}  // namespace
}  // namespace distill
