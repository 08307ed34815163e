// A step over shared memory, once its buffers are there: no allocation, and, while ranks do not outnumber cores, no
// system call.
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/steady_calls.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;
using testing::SystemCalls;

constexpr int64_t kLongest = 1 << 20;  // of float32

int Cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// Every collective, small and large, on `data` of 2 * kLongest.
absl::Status Step(Communicator& comm, float* data) {
  const int64_t half = kLongest / comm.world_size();
  for (const int64_t count : {int64_t{1}, int64_t{500}, int64_t{20'000}, half}) {
    DISTILL_RETURN_IF_ERROR(comm.AllReduce(data, data, count, DType::kFloat32, ReduceOp::kMax));
    DISTILL_RETURN_IF_ERROR(comm.AllReduce(data, data, count, DType::kBFloat16, ReduceOp::kAverage));
    DISTILL_RETURN_IF_ERROR(comm.ReduceScatter(data, data + kLongest, count, DType::kFloat32, ReduceOp::kMax));
    DISTILL_RETURN_IF_ERROR(comm.AllGather(data, data + kLongest, count, DType::kFloat32));
    DISTILL_RETURN_IF_ERROR(comm.Broadcast(data, count, DType::kFloat32, 1));
    DISTILL_RETURN_IF_ERROR(comm.Reduce(data, data, count, DType::kFloat32, ReduceOp::kMax, 0));
    DISTILL_RETURN_IF_ERROR(comm.AllToAll(data, data + kLongest, count, DType::kFloat32));
    if (comm.rank() == 0) DISTILL_RETURN_IF_ERROR(comm.Send(data, count, DType::kFloat32, 1));
    if (comm.rank() == 1) DISTILL_RETURN_IF_ERROR(comm.Receive(data, count, DType::kFloat32, 0));
  }
  return comm.Barrier();
}

struct Counted {
  absl::Status status;
  bool filtered = false;
  int64_t allocations = 0;
  int64_t quiet_rounds = 0;  // without waiting so long that the core was given away
  SystemCalls calls;
};

// In a thread of its own, which makes no system call for the rest of its life.
void Count(Communicator& comm, float* data, int rounds, Counted& counted) {
  counted.status = Step(comm, data);  // what is made once
  counted.filtered = testing::ForbidSystemCalls();
  const int64_t before = testing::Allocations();
  for (int i = 0; i < rounds && counted.status.ok(); ++i) {
    const int64_t waits = testing::CountedSystemCalls().waits;
    counted.status = Step(comm, data);
    if (testing::CountedSystemCalls().waits == waits) ++counted.quiet_rounds;
  }
  counted.allocations = testing::Allocations() - before;
  counted.calls = testing::CountedSystemCalls();
}

Counted CountInThread(Communicator& comm, float* data, int rounds) {
  // Neither leaves this function before the process ends: the thread cannot exit any more.
  auto* counted = new Counted;
  auto* done = new std::atomic<bool>(false);
  std::thread([&comm, data, rounds, counted, done] {
    Count(comm, data, rounds, *counted);
    done->store(true, std::memory_order_release);
    for (;;) sched_yield();
  }).detach();
  while (!done->load(std::memory_order_acquire)) absl::SleepFor(absl::Milliseconds(5));
  return *counted;
}

std::string CheckSteady(int ranks, bool registered, bool enough_cores) {
  return Failures(RunRanks(ranks, absl::Seconds(60), [=](const World& world) -> absl::Status {
    CommunicatorOptions options;
    options.backend = "shm";
    options.timeout = absl::Seconds(50);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
    DISTILL_ASSIGN_OR_RETURN(const auto memory, comm->Allocate(2 * kLongest * 4));
    std::vector<float> plain(2 * kLongest);
    float* data = registered ? reinterpret_cast<float*>(memory->data()) : plain.data();
    // Counted yields give no core away: with too few of them each wait takes a slice of time.
    const Counted counted = CountInThread(*comm, data, enough_cores ? 50 : 3);
    DISTILL_RETURN_IF_ERROR(counted.status);
    DISTILL_RETURN_IF_ERROR(Expect(counted.filtered, "this kernel has no seccomp"));
    DISTILL_RETURN_IF_ERROR(Expect(counted.allocations == 0, absl::StrCat(counted.allocations, " allocations")));
    DISTILL_RETURN_IF_ERROR(Expect(
        counted.calls.others == 0,
        absl::StrCat(counted.calls.others, " system calls, the first of them number ", counted.calls.first_other)));
    if (enough_cores && counted.quiet_rounds == 0) {
      std::printf("skipped: whether waiting makes no system call, since rank %d's core was wanted in every round\n",
                  comm->rank());
    }
    return absl::OkStatus();
  }));
}

TEST_CASE("a step over shared memory allocates nothing and makes no system call") {
  const bool enough_cores = Cores() >= 2;
  if (!enough_cores) std::printf("skipped: whether waiting makes no system call, since there is one core here\n");
  for (const bool registered : {false, true}) {
    CAPTURE(registered);
    CHECK(CheckSteady(2, registered, enough_cores) == "");
  }
}

TEST_CASE(
    "with more ranks than cores a step over shared memory allocates nothing, and only waiting makes system calls") {
  CHECK(CheckSteady(4, true, false) == "");
}

}  // namespace
}  // namespace distill
