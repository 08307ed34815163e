// The algorithms over shared memory, on ranks that are threads over one mapping: the build with the thread sanitizer
// runs these (see CONTRIBUTING.md).
#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/collectives_grid.h"
#include "tests/comm/random_schedule.h"
#include "tests/comm/thread_ranks.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::BufferKind;
using testing::Expect;
using testing::ExpectError;
using testing::OverThreads;

TEST_CASE("every collective is exact between threads, in plain, registered and mixed memory") {
  for (const BufferKind kind : {BufferKind::kPlain, BufferKind::kRegistered, BufferKind::kMixed}) {
    for (const int ranks : {2, 3}) {
      CHECK(OverThreads(ranks, [kind](Communicator& comm) {
              return testing::CheckCollectives(comm, {.buffers = kind,
                                                      .counts = {1, 1009, 5003},
                                                      .dtypes = {DType::kFloat32, DType::kBFloat16, DType::kUInt8},
                                                      .ops = {ReduceOp::kSum, ReduceOp::kAverage}});
            }) == "");
    }
    CHECK(OverThreads(2, [kind](Communicator& comm) { return testing::CheckLargeCollectives(comm, 3 << 20, kind); }) ==
          "");
  }
}

TEST_CASE("another thread may free registered memory while a call uses other memory") {
  CHECK(OverThreads(2, [](Communicator& comm) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto used, comm.Allocate(1 << 16));
          std::vector<std::unique_ptr<CommMemory>> others(20);
          for (auto& other : others) {
            DISTILL_ASSIGN_OR_RETURN(other, comm.Allocate(1 << 12));
          }
          float* data = reinterpret_cast<float*>(used->data());
          std::thread frees([&others] {
            for (auto& other : others) other.reset();
          });
          absl::Status status;
          for (int round = 0; round < 50 && status.ok(); ++round) {
            std::fill(data, data + 4000, 1.0f);
            status = comm.AllReduce(data, data, 4000, DType::kFloat32, ReduceOp::kSum);
            if (status.ok()) status = Expect(data[0] == 2 && data[3999] == 2, "another sum");
          }
          frees.join();
          return status;
        }) == "");
}

TEST_CASE("random schedules over several communicators of threads give what one process computes") {
  CHECK(OverThreads(4, [](Communicator& comm) { return testing::RunRandomSchedule(comm, 5, 150); }) == "");
}

TEST_CASE("a thread that aborts ends the calls of the others, and one that leaves is named") {
  CHECK(OverThreads(3, [](Communicator& comm) -> absl::Status {
          DISTILL_RETURN_IF_ERROR(comm.Barrier());
          std::thread aborts;
          if (comm.rank() == 2) aborts = std::thread([&comm] { comm.Abort(absl::DataLossError("the disk is gone")); });
          absl::Status status;
          while (status.ok()) status = comm.Barrier();
          if (aborts.joinable()) aborts.join();
          DISTILL_RETURN_IF_ERROR(comm.CheckPeers().ok() ? absl::InternalError("all is well") : absl::OkStatus());
          return ExpectError(status, absl::StatusCode::kDataLoss, {"the disk is gone"});
        }) == "");
  CHECK(OverThreads(3, [](Communicator& comm) -> absl::Status {
          DISTILL_RETURN_IF_ERROR(comm.Barrier());
          if (comm.rank() == 1) return absl::OkStatus();
          return ExpectError(comm.Barrier(), absl::StatusCode::kUnavailable, {"rank 1 on ", "has left the job"});
        }) == "");
}

}  // namespace
}  // namespace distill
