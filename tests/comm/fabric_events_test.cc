// A provider's event of an error, such as efa's, ends what a rank waits for; its peers hear of it as of any error.
#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/comm/watch_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::ExpectError;
using testing::Failures;
using testing::JoinForCallsOf;
using testing::RunJobs;
using testing::WatchedFabric;

fid_eq* last_events = nullptr;

// As efa writes it; the last flag is UTIL_FLAG_ERROR, which is libfabric's own.
void Report() {
  fi_eq_err_entry entry = {};
  entry.err = FI_EIO;
  entry.prov_errno = FI_ENOMEM;
  (void)fi_eq_write(last_events, FI_NOTIFY, &entry, sizeof(entry), uint64_t{1} << 60);
}

TEST_CASE("an event of the fabric's ends a rank's call at once, in the call or before it, and then its peer's",
          "[own_fabric]") {
  const auto jobs = RunJobs(2, 2, absl::Seconds(90), [](int job, const World& world) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(WatchedFabric::Watch({.on_events = [](fid_eq& events) { last_events = &events; }}));
    DISTILL_ASSIGN_OR_RETURN(auto comm,
                             JoinForCallsOf(absl::Seconds(60), world, BackendPreference::kFabric, {"a", "b"}));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    std::vector<float> data(1000);
    if (world.rank == 1) {  // makes no call until its peer's has ended
      while (comm->CheckPeers().ok()) absl::SleepFor(absl::Milliseconds(5));
      return ExpectError(comm->Barrier(), absl::StatusCode::kUnavailable, {"failed on lo"});
    }
    const bool in_call = job == 0;
    std::thread reports([in_call] {
      if (in_call) absl::SleepFor(absl::Milliseconds(200));
      Report();
    });
    if (!in_call) reports.join();
    const absl::Status status =
        comm->AllReduce(data.data(), data.data(), static_cast<int64_t>(data.size()), DType::kFloat32, ReduceOp::kSum);
    if (in_call) reports.join();
    return ExpectError(status, absl::StatusCode::kUnavailable,
                       {"provider tcp;ofi_rxm failed on lo", "Input/output error"});
  });
  for (const auto& outcomes : jobs) CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
