// A step over shared memory, once its buffers are there: no allocation, and, while ranks do not outnumber cores, no
// system call.
#include <sched.h>
#include <time.h>

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

constexpr int64_t kLongest = 1 << 18;  // of float32
// So many steps of each rank must be undisturbed, and are waited for so long.
constexpr int kQuietSteps = 10;
constexpr absl::Duration kLongEnough = absl::Seconds(15);

int Cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// A core for this thread alone, however busy the machine is: of rank r the r-th of those that the process may use.
bool TakeCore(int rank) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return false;
  int core = 0;
  for (int seen = -1; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores) && ++seen == rank) break;
  }
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  const sched_param first = {.sched_priority = 1};
  return sched_setaffinity(0, sizeof(cores), &cores) == 0 && sched_setscheduler(0, SCHED_FIFO, &first) == 0;
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
  bool has_core = false;
  bool filtered = false;
  int64_t allocations = 0;
  bool all_were_quiet = false;  // every rank had kQuietSteps without any system call
  SystemCalls calls;
};

// In a thread of its own, which does nothing else for the rest of its life. At least 50 steps; with `until_quiet` more,
// until in enough of them nobody kept a rank waiting so long that it gave its core away.
void Count(Communicator& comm, float* data, bool until_quiet, Counted& counted) {
  counted.has_core = until_quiet && TakeCore(comm.rank());
  counted.status = Step(comm, data);  // what is made once
  counted.filtered = testing::CountSystemCalls();
  const int64_t before = testing::Allocations();
  const absl::Time late = absl::Now() + kLongEnough;
  int quiet = 0;
  bool enough = false;
  for (int i = 0; counted.status.ok() && (i < 50 || !enough); ++i) {
    const int64_t waits = testing::CountedSystemCalls().waits;
    counted.status = Step(comm, data);
    if (testing::CountedSystemCalls().waits == waits) ++quiet;
    // All continue, or none: ranks that lack some, and ranks that have waited long enough.
    int64_t ranks[] = {quiet < kQuietSteps ? 1 : 0, absl::Now() > late ? 1 : 0};
    counted.status.Update(comm.AllReduce(ranks, ranks, 2, DType::kInt64, ReduceOp::kSum));
    counted.all_were_quiet = ranks[0] == 0;
    enough = !until_quiet || counted.all_were_quiet || ranks[1] > 0;
  }
  counted.allocations = testing::Allocations() - before;
  counted.calls = testing::CountedSystemCalls();
}

Counted CountInThread(Communicator& comm, float* data, bool until_quiet) {
  // Neither leaves this function before the process ends: the thread cannot exit any more.
  auto* counted = new Counted;
  auto* done = new std::atomic<bool>(false);
  std::thread([&comm, data, until_quiet, counted, done] {
    Count(comm, data, until_quiet, *counted);
    done->store(true, std::memory_order_release);
    const timespec nap = {1, 0};
    for (;;) nanosleep(&nap, nullptr);
  }).detach();
  while (!done->load(std::memory_order_acquire)) absl::SleepFor(absl::Milliseconds(5));
  return *counted;
}

std::string CheckSteady(int ranks, bool registered, bool enough_cores) {
  return Failures(RunRanks(ranks, absl::Seconds(60), [=](const World& world) -> absl::Status {
    CommunicatorOptions options;
    options.backend = BackendPreference::kShm;
    options.timeout = absl::Seconds(50);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
    DISTILL_ASSIGN_OR_RETURN(const auto memory, comm->Allocate(2 * kLongest * 4));
    std::vector<float> plain(2 * kLongest);
    float* data = registered ? reinterpret_cast<float*>(memory->data()) : plain.data();
    const Counted counted = CountInThread(*comm, data, enough_cores);
    DISTILL_RETURN_IF_ERROR(counted.status);
    DISTILL_RETURN_IF_ERROR(Expect(counted.filtered, "this kernel has no seccomp"));
    DISTILL_RETURN_IF_ERROR(Expect(counted.allocations == 0, absl::StrCat(counted.allocations, " allocations")));
    DISTILL_RETURN_IF_ERROR(Expect(
        counted.calls.others == 0,
        absl::StrCat(counted.calls.others, " system calls, the first of them number ", counted.calls.first_other)));
    if (!enough_cores) return absl::OkStatus();
    if (counted.has_core) return Expect(counted.all_were_quiet, "waiting made system calls in nearly every step");
    if (!counted.all_were_quiet) {
      std::fprintf(stderr,
                   "skipped: whether waiting makes no system call, since the machine is busy and rank %d may not take "
                   "a core for itself (CAP_SYS_NICE)\n",
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
