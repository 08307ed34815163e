// Finished blocks that are written straight into the next rank's memory: exact wherever the buffers lie, over tcp and
// over libfabric's shm provider, and with errors as ever.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/fabric_meeting.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/collectives_grid.h"
#include "tests/comm/efa_like_ranks.h"
#include "tests/comm/join.h"
#include "tests/comm/load_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/stale_memory.h"

namespace distill {
namespace {

using testing::AwaitAllRanks;
using testing::BufferKind;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::JoinForCallsOf;
using testing::RunRanks;

// Over the fabric like efa that is the only one.
std::vector<std::string> Providers() {
  return testing::EfaLikeRails() != nullptr ? std::vector<std::string>{"efa"} : std::vector<std::string>{"tcp", "shm"};
}

// Along the ring, with writes at any length.
void WriteAlways(const std::string& provider) {
  testing::RemoveWhatItsNumberLeft();
  setenv("DISTILL_FABRIC_PROVIDER", testing::EfaLikeRails() != nullptr ? "efa" : provider.c_str(), 1);
  setenv("DISTILL_FABRIC_WRITES", "1", 1);
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinRing(const World& world, const std::string& provider) {
  WriteAlways(provider);
  return testing::Join(
      world,
      {.backend = BackendPreference::kFabric, .algorithm = AlgorithmPreference::kRing, .timeout = absl::Seconds(60)});
}

using Body = std::function<absl::Status(Communicator&)>;

std::string RunRing(const std::string& provider, int ranks, const Body& body) {
  testing::LoadFabric();
  return Failures(RunRanks(ranks, absl::Seconds(200), [&](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, JoinRing(world, provider));
    return body(*comm);
  }));
}

constexpr int64_t kBytes = 8 << 20;

// Each rank's data are its number plus one; what `data` holds afterwards.
absl::Status Sum(Communicator& comm, char* data, int64_t bytes) {
  std::memset(data, comm.rank() + 1, static_cast<size_t>(bytes));
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(data, data, bytes, DType::kUInt8, ReduceOp::kSum));
  const char sum = static_cast<char>(comm.world_size() * (comm.world_size() + 1) / 2);
  for (int64_t i = 0; i < bytes; ++i) {
    if (data[i] != sum) return absl::InternalError(absl::StrCat("byte ", i, " is ", int{data[i]}));
  }
  return absl::OkStatus();
}

TEST_CASE("blocks that are written are exact, wherever each rank's buffers lie") {
  const std::string provider = GENERATE(from_range(Providers()));
  for (const BufferKind kind : {BufferKind::kMixed, BufferKind::kShifted}) {
    for (const int ranks : testing::RanksToTry({2, 3, 4, 5, 6, 7, 8})) {
      CAPTURE(provider, ranks, static_cast<int>(kind));
      const std::vector<DType> types = ranks < 4 ? std::vector<DType>{DType::kFloat32, DType::kBFloat16, DType::kUInt8}
                                                 : std::vector<DType>{DType::kBFloat16, DType::kInt64};
      CHECK(RunRing(provider, ranks, [&](Communicator& comm) {
              return testing::CheckAllReduces(comm, {.buffers = kind,
                                                     .counts = {0, 1, 3, 1009},
                                                     .dtypes = types,
                                                     .ops = {ReduceOp::kAverage, ReduceOp::kMax}});
            }) == "");
    }
  }
}

TEST_CASE("long collectives are exact where blocks are written in many chunks") {
  const std::string provider = GENERATE(from_range(Providers()));
  for (const BufferKind kind : {BufferKind::kMixed, BufferKind::kShifted}) {
    for (const int ranks : {2, 3, 7}) {
      CAPTURE(provider, ranks, static_cast<int>(kind));
      CHECK(RunRing(provider, ranks,
                    [&](Communicator& comm) { return testing::CheckLargeCollectives(comm, 5 << 20, kind); }) == "");
    }
  }
}

TEST_CASE("memory that is written into may be freed by another thread beside a call, and its successor be used") {
  const std::string provider = GENERATE(from_range(Providers()));
  CAPTURE(provider);
  CHECK(RunRing(provider, 3, [](Communicator& comm) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto kept, comm.Allocate(kBytes));
          for (int round = 0; round < 20; ++round) {
            DISTILL_ASSIGN_OR_RETURN(auto first, comm.Allocate(kBytes / 8 + 4096));
            DISTILL_RETURN_IF_ERROR(Sum(comm, first->data() + comm.rank(), kBytes / 8));
            std::thread frees([&] { first.reset(); });
            const absl::Status summed = Sum(comm, kept->data(), kBytes);
            frees.join();
            DISTILL_RETURN_IF_ERROR(summed);
          }
          return absl::OkStatus();
        }) == "");
}

TEST_CASE("ten thousand small calls in a row are right where blocks are written") {
  CHECK(RunRing("tcp", 2, [](Communicator& comm) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto memory, comm.Allocate(4096));
          auto* data = reinterpret_cast<int64_t*>(memory->data());
          for (int64_t call = 0; call < testing::CallsInARow(10'000); ++call) {
            int64_t* at = data + call % 100;
            const int64_t count = 1 + call % 7;
            for (int64_t i = 0; i < count; ++i) at[i] = call + i + comm.rank();
            DISTILL_RETURN_IF_ERROR(comm.AllReduce(at, at, count, DType::kInt64, ReduceOp::kSum));
            for (int64_t i = 0; i < count; ++i) {
              if (at[i] != 2 * (call + i) + 1) return absl::InternalError(absl::StrCat("call ", call));
            }
          }
          return absl::OkStatus();
        }) == "");
}

TEST_CASE("in two levels lanes write blocks of registered memory, and results are exact") {
  testing::LoadFabric();
  const auto outcomes = RunRanks(5, absl::Seconds(100), [](const World& world) -> absl::Status {
    WriteAlways("tcp");
    setenv("DISTILL_COMM_ALGORITHM", "ring", 1);
    World placed = world;
    placed.host = placed.host_id = world.rank % 2 == 0 ? "host-a" : "host-b";
    DISTILL_ASSIGN_OR_RETURN(const auto comm, testing::Join(placed, {.timeout = absl::Seconds(60)}));
    DISTILL_RETURN_IF_ERROR(Expect(comm->backend() == "shm+fabric", "another backend"));
    for (const BufferKind kind : {BufferKind::kMixed, BufferKind::kShifted}) {
      DISTILL_RETURN_IF_ERROR(testing::CheckLargeCollectives(*comm, 5 << 20, kind));
    }
    return absl::OkStatus();
  });
  CHECK(Failures(outcomes) == "");
}

// Over tcp libfabric 1.17 crashes where a peer, or this rank, goes in the middle of a write: here none is under way.
TEST_CASE("a rank that is killed is named by those that would write, and be written to") {
  const auto outcomes = RunRanks(3, absl::Seconds(60), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, JoinRing(world, "tcp"));
    DISTILL_ASSIGN_OR_RETURN(const auto memory, comm->Allocate(kBytes));
    DISTILL_RETURN_IF_ERROR(Sum(*comm, memory->data(), kBytes));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
    if (world.rank == 1) kill(getpid(), SIGKILL);
    const absl::Status status = Sum(*comm, memory->data(), kBytes);
    return ExpectError(status, absl::StatusCode::kUnavailable,
                       {"all-reduce number ", absl::StrCat("rank 1 on ", world.host, " was lost")});
  });
  CHECK(outcomes[1].signal == SIGKILL);
  CHECK(Failures({outcomes[0], outcomes[2]}) == "");
}

// Whether nobody writes to the memory for a while.
absl::Status ExpectUntouched(char* data) {
  std::memset(data, 0x3c, kBytes);
  absl::SleepFor(absl::Milliseconds(100));
  for (int64_t i = 0; i < kBytes; ++i) {
    if (data[i] != 0x3c) return absl::InternalError(absl::StrCat("byte ", i, " was written to after the call"));
  }
  return absl::OkStatus();
}

TEST_CASE("a call that waits for the next rank's note ends in time, or by an abort, and says why") {
  enum { kReduces, kGathers, kAborts, kJobs };
  const auto jobs = testing::RunJobs(kJobs, 2, absl::Seconds(60), [](int job, const World& world) -> absl::Status {
    WriteAlways("tcp");
    const absl::Duration timeout = absl::Seconds(job == kAborts ? 60 : 5);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, JoinForCallsOf(timeout, world, BackendPreference::kFabric, {"a", "b"}));
    DISTILL_ASSIGN_OR_RETURN(const auto memory, comm->Allocate(kBytes));
    if (world.rank == 0) {
      while (comm->CheckPeers().ok()) absl::SleepFor(absl::Milliseconds(5));
      return absl::OkStatus();
    }
    std::thread aborter([&comm, job] {
      if (job != kAborts) return;
      absl::SleepFor(absl::Milliseconds(200));
      comm->Abort(absl::CancelledError("told to stop"));
    });
    char* data = memory->data();
    const absl::Status status = job == kReduces ? comm->AllReduce(data, data, kBytes, DType::kUInt8, ReduceOp::kMax)
                                                : comm->AllGather(data + kBytes / 2, data, kBytes / 2, DType::kUInt8);
    aborter.join();
    DISTILL_RETURN_IF_ERROR(ExpectUntouched(data));
    if (job == kAborts) return ExpectError(status, absl::StatusCode::kCancelled, {"told to stop"});
    return ExpectError(status, absl::StatusCode::kDeadlineExceeded, {"waiting for rank 0 on a", "longer than 5s"});
  });
  for (const auto& outcomes : jobs) CHECK(Failures(outcomes) == "");
}

TEST_CASE("blocks are written where that is good for every rank, unless ranks ask otherwise") {
  using enum FabricWriteAccess;
  const auto choose = [](FabricWriteAccess access, const std::string& preference) {
    return ChooseWriting({kGood, access}, {"", preference}, {"rank 0 on a", "rank 1 on b"});
  };
  CHECK(choose(kGood, "").value() == FabricWriting::kLong);
  CHECK(choose(kPoor, "").value() == FabricWriting::kNone);
  CHECK(choose(kNone, "").value() == FabricWriting::kNone);
  CHECK(choose(kGood, "0").value() == FabricWriting::kNone);
  CHECK(choose(kGood, "1").value() == FabricWriting::kAll);
  CHECK(choose(kPoor, "1").value() == FabricWriting::kAll);
  const absl::Status unable = choose(kNone, "1").status();
  CHECK(absl::IsInvalidArgument(unable));
  CHECK(unable.message() ==
        "DISTILL_FABRIC_WRITES=1, but libfabric's provider does not write into peers' memory for rank 1 on b");
  CHECK(absl::IsInvalidArgument(choose(kGood, "yes").status()));
}

TEST_CASE("ranks that ask for writes and for none are told so") {
  const auto outcomes = RunRanks(2, absl::Seconds(30), [](const World& world) {
    setenv("DISTILL_FABRIC_WRITES", world.rank == 0 ? "0" : "1", 1);
    return ExpectError(testing::Join(world, {.backend = BackendPreference::kFabric}).status(),
                       absl::StatusCode::kFailedPrecondition,
                       {"DISTILL_FABRIC_WRITES differs: 0 for rank 0 on ", ", 1 for rank 1 on "});
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
