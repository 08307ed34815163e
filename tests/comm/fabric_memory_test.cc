// Registered memory over the fabric: found by address, and free to go before or after the communicator.
#include <dirent.h>

#include <vector>

#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::Join;
using testing::RunRanks;

constexpr int64_t kCount = 300'000;  // a few chunks of the ring

// Sums `data` in place over the ranks, and says whether every element is right.
absl::Status Sum(Communicator& comm, float* data) {
  for (int64_t i = 0; i < kCount; ++i) data[i] = static_cast<float>((i + comm.rank()) % 101);
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(data, data, kCount, DType::kFloat32, ReduceOp::kSum));
  for (int64_t i = 0; i < kCount; ++i) {
    float sum = 0;
    for (int rank = 0; rank < comm.world_size(); ++rank) sum += static_cast<float>((i + rank) % 101);
    if (data[i] != sum) return Expect(false, "a wrong sum");
  }
  return absl::OkStatus();
}

int Threads() {
  DIR* folder = opendir("/proc/self/task");
  int count = -2;  // . and ..
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// The kernel takes a thread out of /proc a moment after it was joined.
bool ComesDownTo(int threads) {
  for (int wait = 0; wait < 500 && Threads() != threads; ++wait) absl::SleepFor(absl::Milliseconds(10));
  return Threads() == threads;
}

TEST_CASE("registered memory over the fabric may be freed while its communicator lives, and used beside plain memory") {
  const auto outcomes = RunRanks(3, absl::Seconds(60), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm,
                             Join(world, {.backend = BackendPreference::kFabric, .timeout = absl::Seconds(20)}));
    DISTILL_RETURN_IF_ERROR(Expect(comm->backend() == "fabric", "another backend"));
    DISTILL_ASSIGN_OR_RETURN(const auto kept, comm->Allocate(kCount * 4));
    std::vector<float> plain(kCount);
    for (int round = 0; round < 5; ++round) {
      DISTILL_ASSIGN_OR_RETURN(auto memory, comm->Allocate(kCount * 4 + 4096));
      DISTILL_RETURN_IF_ERROR(Sum(*comm, reinterpret_cast<float*>(memory->data() + 4)));
      DISTILL_RETURN_IF_ERROR(Sum(*comm, reinterpret_cast<float*>(kept->data())));
      memory.reset();
      // One rank's buffer is registered, another's is not; what was freed may be plain memory now.
      std::vector<float> again(kCount);
      DISTILL_RETURN_IF_ERROR(Sum(*comm, world.rank == 0 ? reinterpret_cast<float*>(kept->data()) : again.data()));
    }
    return Sum(*comm, plain.data());
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("registered memory outlives its communicator over the fabric, also one that failed, and no thread stays") {
  const auto outcomes = RunRanks(2, absl::Seconds(60), [](const World& world) -> absl::Status {
    const int before = Threads();
    for (const bool aborts : {false, true}) {  // a failure of one rank is the other's: it comes last
      DISTILL_ASSIGN_OR_RETURN(auto comm,
                               Join(world, {.backend = BackendPreference::kFabric, .timeout = absl::Seconds(20)}));
      DISTILL_ASSIGN_OR_RETURN(const auto memory, comm->Allocate(kCount * 4));
      const absl::Status summed = Sum(*comm, reinterpret_cast<float*>(memory->data()));
      // The other rank may be done already, and its abort here first.
      if (!aborts || !absl::IsCancelled(summed)) DISTILL_RETURN_IF_ERROR(summed);
      if (aborts) {
        comm->Abort(absl::CancelledError("told to stop"));
        DISTILL_RETURN_IF_ERROR(Expect(absl::IsCancelled(comm->Barrier()), "a call after an abort"));
      }
      comm.reset();
      memory->data()[kCount] = 1;
      DISTILL_RETURN_IF_ERROR(Expect(ComesDownTo(before), "a thread is left"));
    }
    return absl::OkStatus();
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
