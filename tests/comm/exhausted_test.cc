// A rank that has not the memory, or not the threads: an error on every rank, and no rank that ends otherwise.
#include "absl/time/clock.h"
#include "libdistill/comm/async.h"
#include "libdistill/comm/setup.h"
#include "libdistill/core/status_macros.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RefuseThreads;
using testing::RunRanks;

constexpr int64_t kBytes = 1 << 20;

// Refuses, while it is told to, what a test's rank is to lack. A rank that maps slowly is the one that would find
// another's memory freed.
class ScarceMemory : public SharedMemorySource {
 public:
  absl::StatusOr<SharedMemory> Create(size_t bytes) override {
    if (refuses_create) return absl::ResourceExhaustedError("this rank has no memory to share");
    return SharedMemory::Create(bytes);
  }
  absl::StatusOr<SharedMemory> Map(const std::string& ticket) override {
    if (refuses_map) return absl::ResourceExhaustedError("this rank has no room for another mapping");
    if (maps_slowly) absl::SleepFor(absl::Milliseconds(300));
    return SharedMemory::Map(ticket);
  }

  bool refuses_create = false;
  bool refuses_map = false;
  bool maps_slowly = false;
};

MadeCommunicator Join(const World& world, std::shared_ptr<SharedMemorySource> memory,
                      std::shared_ptr<Rendezvous>* met = nullptr) {
  CommunicatorOptions options;
  options.timeout = absl::Seconds(20);
  const Deadline deadline = Deadline::After(options.timeout);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Rendezvous> rendezvous, CreateRendezvous(world, deadline));
  if (met != nullptr) *met = rendezvous;
  const auto size = static_cast<size_t>(world.world_size);
  return CreateShmCommunicator({.world = world,
                                .options = options,
                                .deadline = deadline,
                                .rendezvous = rendezvous,
                                .hosts = std::vector<std::string>(size, world.host),
                                .one_host = true,
                                .host_ids = std::vector<std::string>(size, world.host_id),
                                .memory = std::move(memory)});
}

// Three ranks, of which `lack` takes something from its own; then they have enough again.
std::string AllocateWithout(const std::string& named, const std::function<void(int, ScarceMemory&)>& lack) {
  return Failures(RunRanks(3, absl::Seconds(40), [&](const World& world) -> absl::Status {
    const auto memory = std::make_shared<ScarceMemory>();
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, memory));
    lack(comm->rank(), *memory);
    memory->maps_slowly = comm->rank() == 1;
    DISTILL_RETURN_IF_ERROR(
        ExpectError(comm->Allocate(kBytes).status(), absl::StatusCode::kResourceExhausted, {named}));
    *memory = ScarceMemory();
    DISTILL_ASSIGN_OR_RETURN(const auto made, comm->Allocate(kBytes));
    int64_t& sum = *reinterpret_cast<int64_t*>(made->data());
    sum = 1 + comm->rank();
    DISTILL_RETURN_IF_ERROR(comm->AllReduce(&sum, &sum, 1, DType::kInt64, ReduceOp::kSum));
    return Expect(sum == 6, "a wrong sum");
  }));
}

TEST_CASE("a rank without memory to share makes Allocate ResourceExhausted on every rank, which can try again",
          "[one_host]") {
  CHECK(AllocateWithout("memory", [](int rank, ScarceMemory& memory) { memory.refuses_create = rank == 2; }) == "");
}

TEST_CASE("a rank that cannot map the others' memory keeps its own until they have mapped it", "[one_host]") {
  CHECK(AllocateWithout("", [](int rank, ScarceMemory& memory) { memory.refuses_map = rank == 0; }) == "");
}

TEST_CASE("a rank without a thread for its watchdog says so, and every rank's next call ends with it") {
  CHECK(Failures(RunRanks(3, absl::Seconds(40), [](const World& world) -> absl::Status {
          std::shared_ptr<Rendezvous> rendezvous;
          const MadeCommunicator comm = Join(world, std::make_shared<SharedMemorySource>(), &rendezvous);
          if (world.rank == 2) RefuseThreads();
          absl::Status status = comm.status();  // a slow rank hears of it while it still joins
          if (status.ok()) status = (*comm)->Attach(rendezvous, absl::Seconds(20), absl::Seconds(20));
          while (status.ok()) status = (*comm)->Barrier();
          return ExpectError(status, absl::StatusCode::kResourceExhausted,
                             {"rank 2 on ", "no thread for the watchdog of collectives"});
        })) == "");
}

TEST_CASE("a rank without a thread for its asynchronous calls says so, and can make the others") {
  CHECK(Failures(RunRanks(2, absl::Seconds(40), [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, std::make_shared<SharedMemorySource>()));
          RefuseThreads();
          DISTILL_RETURN_IF_ERROR(ExpectError(AsyncCalls::Start(comm.get()).status(),
                                              absl::StatusCode::kResourceExhausted,
                                              {"no thread for the calls of rank"}));
          return comm->Barrier();
        })) == "");
}

}  // namespace
}  // namespace distill
