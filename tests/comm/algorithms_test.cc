// Each algorithm between hosts, forced, over the fabric with ranks as real processes.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/collectives_grid.h"
#include "tests/comm/efa_like_ranks.h"
#include "tests/comm/join.h"
#include "tests/comm/load_fabric.h"
#include "tests/comm/random_schedule.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::AwaitAllRanks;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::Join;
using testing::RankOutcome;
using testing::RunRanks;

constexpr AlgorithmPreference kAlgorithms[] = {
    AlgorithmPreference::kRecursiveDoubling, AlgorithmPreference::kDirectExchange, AlgorithmPreference::kRabenseifner,
    AlgorithmPreference::kBinomialTree,      AlgorithmPreference::kBinaryTree,     AlgorithmPreference::kRing};

CommunicatorOptions Options(AlgorithmPreference algorithm) {
  return {.backend = BackendPreference::kFabric, .algorithm = algorithm, .timeout = absl::Seconds(60)};
}

std::string RunWith(AlgorithmPreference algorithm, int ranks, const std::function<absl::Status(Communicator&)>& body) {
  testing::LoadFabric();
  return Failures(RunRanks(ranks, absl::Seconds(120), [&](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, Options(algorithm)));
    const std::string over(comm->backend());
    DISTILL_RETURN_IF_ERROR(Expect(over == (ranks == 1 ? "alone" : "fabric"), absl::StrCat("over ", over)));
    return body(*comm);
  }));
}

// What is forced here; the ring has the whole grid of every backend besides (grid_test.cc).
constexpr AlgorithmPreference kNew[] = {AlgorithmPreference::kRecursiveDoubling, AlgorithmPreference::kDirectExchange,
                                        AlgorithmPreference::kRabenseifner};

TEST_CASE("every algorithm gives what one process computes, for every type, operation and count") {
  for (const AlgorithmPreference algorithm : kNew) {
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(FieldText(algorithm), ranks);
      CHECK(RunWith(algorithm, ranks, [](Communicator& comm) { return testing::CheckAllReduces(comm, {}); }) == "");
    }
    for (const int ranks : testing::RanksToTry({5, 6, 7, 8})) {
      CAPTURE(FieldText(algorithm), ranks);
      CHECK(RunWith(algorithm, ranks, [](Communicator& comm) {
              return testing::CheckAllReduces(comm,
                                              {.counts = {0, 1, 3, 1009}, .dtypes = {DType::kBFloat16, DType::kInt64}});
            }) == "");
    }
  }
}

constexpr AlgorithmPreference kTrees[] = {AlgorithmPreference::kBinomialTree, AlgorithmPreference::kBinaryTree};

TEST_CASE("trees give what one process computes, for every type, root and count") {
  for (const AlgorithmPreference algorithm : kTrees) {
    for (const int ranks : {2, 3, 4}) {
      CAPTURE(FieldText(algorithm), ranks);
      CHECK(RunWith(algorithm, ranks, [](Communicator& comm) { return testing::CheckRooted(comm, {}); }) == "");
    }
    for (const int ranks : testing::RanksToTry({5, 6, 7, 8, 9})) {
      CAPTURE(FieldText(algorithm), ranks);
      CHECK(RunWith(algorithm, ranks, [](Communicator& comm) -> absl::Status {
              DISTILL_RETURN_IF_ERROR(testing::CheckRooted(
                  comm, {.counts = {1, 1009}, .dtypes = testing::kOtherTypes, .ops = {ReduceOp::kAverage}}));
              return testing::CheckRooted(comm, {.counts = {0, 3, 1009}, .dtypes = {DType::kBFloat16, DType::kInt64}});
            }) == "");
    }
  }
}

TEST_CASE("trees of many ranks and of many chunks are exact for every root") {
  for (const AlgorithmPreference algorithm : kTrees) {
    for (const int ranks : {16, 17}) {
      CAPTURE(FieldText(algorithm), ranks);
      CHECK(RunWith(algorithm, ranks, [](Communicator& comm) {
              return testing::CheckRooted(
                  comm, {.counts = {1009}, .dtypes = {DType::kFloat32, DType::kBFloat16}, .ops = {ReduceOp::kSum}});
            }) == "");
    }
    for (const int ranks : {3, 5, 6}) {
      CAPTURE(FieldText(algorithm), ranks);
      CHECK(RunWith(algorithm, ranks, [](Communicator& comm) {
              return testing::CheckRooted(
                  comm, {.counts = {1'500'007}, .dtypes = {DType::kFloat32}, .ops = {ReduceOp::kAverage}});
            }) == "");
    }
  }
}

TEST_CASE("the same reduce along a tree gives the same bits again") {
  for (const AlgorithmPreference algorithm : kTrees) {
    CAPTURE(FieldText(algorithm));
    CHECK(RunWith(algorithm, 6, [](Communicator& comm) -> absl::Status {
            constexpr int64_t kCount = 100'003;
            std::vector<float> mine(kCount), first(kCount), again(kCount, -1);
            for (size_t i = 0; i < mine.size(); ++i) mine[i] = 1.0f / static_cast<float>(i * 7 + comm.rank() * 3 + 1);
            for (std::vector<float>* result : {&first, &again}) {
              DISTILL_RETURN_IF_ERROR(
                  comm.Reduce(mine.data(), result->data(), kCount, DType::kFloat32, ReduceOp::kSum, 4));
            }
            return Expect(comm.rank() != 4 || first == again, "other bits");
          }) == "");
  }
}

// 256 + 1 + 1: rounded after each addition it would stay 256.
TEST_CASE("a rank of a tree adds all its children at once, 16-bit types in float32 with one rounding") {
  CHECK(RunWith(AlgorithmPreference::kBinaryTree, 3, [](Communicator& comm) -> absl::Status {
          std::vector<uint16_t> data(5000, comm.rank() == 0 ? 0x4380 : 0x3f80), sum(5000);  // 256, 1, 1
          DISTILL_RETURN_IF_ERROR(comm.Reduce(data.data(), sum.data(), 5000, DType::kBFloat16, ReduceOp::kSum, 0));
          for (const uint16_t x : sum)
            DISTILL_RETURN_IF_ERROR(Expect(comm.rank() != 0 || x == 0x4381, absl::StrCat(x)));
          return absl::OkStatus();
        }) == "");
}

TEST_CASE("every algorithm is exact over many chunks") {
  for (const AlgorithmPreference algorithm : kNew) {
    for (const int ranks : {2, 3, 4}) {
      CAPTURE(FieldText(algorithm), ranks);
      CHECK(RunWith(algorithm, ranks, [](Communicator& comm) {
              return testing::CheckAllReduces(
                  comm,
                  {.counts = {400'009}, .dtypes = {DType::kFloat32, DType::kBFloat16}, .ops = {ReduceOp::kAverage}});
            }) == "");
    }
  }
}

int64_t PeakKibibytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  for (int64_t kibibytes = 0; file >> word;) {
    if (word == "VmHWM:" && file >> kibibytes) return kibibytes;
  }
  return -1;
}

TEST_CASE("a reduce-scatter along the ring takes the room of a few chunks, however long the blocks are", "[memory]") {
  constexpr int64_t kCount = 6'000'011;
  const auto value = [](int rank, int64_t i) { return static_cast<float>((i * 7 + rank * 3) % 61); };
  CHECK(RunWith(AlgorithmPreference::kRing, 3, [&](Communicator& comm) -> absl::Status {
          std::vector<float> send(3 * kCount), receive(kCount, -1.0f);
          for (int64_t i = 0; i < 3 * kCount; ++i) send[static_cast<size_t>(i)] = value(comm.rank(), i);
          DISTILL_RETURN_IF_ERROR(comm.Barrier());
          const int64_t before = PeakKibibytes();
          DISTILL_RETURN_IF_ERROR(
              comm.ReduceScatter(send.data(), receive.data(), kCount, DType::kFloat32, ReduceOp::kSum));
          const int64_t more = PeakKibibytes() - before;
          for (int64_t i = 0; i < kCount; ++i) {
            const int64_t at = comm.rank() * kCount + i;
            DISTILL_RETURN_IF_ERROR(Expect(
                receive[static_cast<size_t>(i)] == value(0, at) + value(1, at) + value(2, at), absl::StrCat("at ", i)));
          }
          return Expect(before > 0 && more < kCount * 4 / 1024, absl::StrCat(more, " KiB of memory"));
        }) == "");
}

TEST_CASE("all ranks end with the same bits of every algorithm, and the same call gives them again") {
  for (const AlgorithmPreference algorithm : kNew) {
    for (const int ranks : {2, 3, 5, 8}) {
      CAPTURE(FieldText(algorithm), ranks);
      CHECK(RunWith(algorithm, ranks, testing::CheckSameBits) == "");
    }
  }
}

TEST_CASE("random schedules of calls come out right under every algorithm") {
  for (const AlgorithmPreference algorithm : kAlgorithms) {
    CAPTURE(FieldText(algorithm));
    CHECK(RunWith(algorithm, 5, [](Communicator& comm) { return testing::RunRandomSchedule(comm, 4, 60); }) == "");
  }
}

TEST_CASE("direct exchange adds 16-bit types in float32 and rounds once") {
  CHECK(RunWith(AlgorithmPreference::kDirectExchange, 3, [](Communicator& comm) -> absl::Status {
          // 256 + 1 + 1: rounded after each addition it would stay 256.
          std::vector<uint16_t> data(5000, comm.rank() == 0 ? 0x4380 : 0x3f80);
          DISTILL_RETURN_IF_ERROR(comm.AllReduce(data.data(), data.data(), 5000, DType::kBFloat16, ReduceOp::kSum));
          for (const uint16_t x : data) DISTILL_RETURN_IF_ERROR(Expect(x == 0x4381, absl::StrCat("got ", x)));
          return absl::OkStatus();
        }) == "");
}

TEST_CASE("a rank that is killed in any algorithm is named by the others") {
  for (const AlgorithmPreference algorithm : kAlgorithms) {
    CAPTURE(FieldText(algorithm));
    const auto outcomes = RunRanks(4, absl::Seconds(40), [&](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, Options(algorithm)));
      std::vector<float> data(3000, 1.0f);
      for (int i = 0;; ++i) {
        if (i == 3) DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
        if (world.rank == 2 && i == 3) kill(getpid(), SIGKILL);
        const absl::Status status = comm->AllReduce(data.data(), data.data(), 3000, DType::kFloat32, ReduceOp::kMax);
        if (status.ok()) continue;
        DISTILL_RETURN_IF_ERROR(ExpectError(
            status, absl::StatusCode::kUnavailable,
            {"all-reduce number 4 over fabric failed on rank ", absl::StrCat("rank 2 on ", world.host, " was lost")}));
        return Expect(comm->Barrier() == status, "not poisoned");
      }
    });
    CHECK(outcomes[2].signal == SIGKILL);
    CHECK(Failures({outcomes[0], outcomes[1], outcomes[3]}) == "");
  }
}

TEST_CASE("a rank that is killed in a tree is named by the ranks above and below it") {
  for (const AlgorithmPreference algorithm : kTrees) {
    for (const bool reduces : {false, true}) {
      CAPTURE(FieldText(algorithm), reduces);
      const auto outcomes = RunRanks(7, absl::Seconds(40), [&](const World& world) -> absl::Status {
        DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, Options(algorithm)));
        std::vector<float> data(3000, 1.0f), sums(3000);
        for (int i = 0;; ++i) {
          if (i == 3) DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
          if (world.rank == 2 && i == 3) kill(getpid(), SIGKILL);
          // Whoever waits for nobody in the call hears of it in the barrier.
          absl::Status status = reduces
                                    ? comm->Reduce(data.data(), sums.data(), 3000, DType::kFloat32, ReduceOp::kMax, 0)
                                    : comm->Broadcast(data.data(), 3000, DType::kFloat32, 0);
          if (status.ok()) status = comm->Barrier();
          if (status.ok()) continue;
          return ExpectError(status, absl::StatusCode::kUnavailable,
                             {" over fabric failed on rank ", absl::StrCat("rank 2 on ", world.host, " was lost")});
        }
      });
      CHECK(outcomes[2].signal == SIGKILL);
      CHECK(Failures({outcomes[0], outcomes[1], outcomes[3], outcomes[4], outcomes[5], outcomes[6]}) == "");
    }
  }
}

// Ranks that wait for nobody in the call may end well.
absl::Status ReduceWithout(int late, int64_t count, const CommunicatorOptions& options, const World& world) {
  DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, options));
  DISTILL_RETURN_IF_ERROR(comm->Barrier());
  if (world.rank == late) return AwaitAllRanks();  // never makes the call
  std::vector<float> data(static_cast<size_t>(count), 1.0f), sums(data.size());
  const absl::Status status = comm->Reduce(data.data(), sums.data(), count, DType::kFloat32, ReduceOp::kSum, 0);
  DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
  if (world.rank != 0 && status.ok()) return absl::OkStatus();
  return ExpectError(
      status, absl::StatusCode::kDeadlineExceeded,
      {absl::StrCat("waiting for rank ", late, " on ", world.host, " to make call number 2 took longer than 5s")});
}

TEST_CASE("a call along a tree ends at its deadline, which names the rank that never came, below or above") {
  testing::LoadFabric();
  // 16 MB are more than credits and the sums in between hold, so that all ranks below a late root wait.
  const std::pair<int, int64_t> cases[] = {{3, 3000}, {0, 4'000'000}};
  // All at one time: each only waits.
  const auto jobs = testing::RunJobs(4, 4, absl::Seconds(60), [&](int job, const World& world) {
    CommunicatorOptions options = Options(kTrees[job / 2]);
    options.timeout = absl::Seconds(5);
    const auto& [late, count] = cases[job % 2];
    return ReduceWithout(late, count, options, world);
  });
  for (int job = 0; job < 4; ++job) {
    CAPTURE(FieldText(kTrees[job / 2]), cases[job % 2].first);
    CHECK(Failures(jobs[static_cast<size_t>(job)]) == "");
  }
}

TEST_CASE("ranks that want different algorithms are told so, and an unknown one is refused") {
  const auto differ = RunRanks(2, absl::Seconds(30), [](const World& world) {
    return ExpectError(
        Join(world, Options(world.rank == 0 ? AlgorithmPreference::kAuto : AlgorithmPreference::kRing)).status(),
        absl::StatusCode::kFailedPrecondition,
        {"comm_algorithm differs: rank 0 on ", " has auto, rank 1 on ", " has ring"});
  });
  CHECK(Failures(differ) == "");
  const auto unknown = RunRanks(1, absl::Seconds(30), [](const World& world) {
    return ExpectError(Join(world, Options(static_cast<AlgorithmPreference>(77))).status(),
                       absl::StatusCode::kInvalidArgument,
                       {"comm_algorithm: must be one of auto, flat, recursive_doubling, direct_exchange, rabenseifner, "
                        "binomial_tree, binary_tree, ring, "
                        "hierarchical, not 'the value 77'"});
  });
  CHECK(Failures(unknown) == "");
}

TEST_CASE("the environment names the algorithm and the table where the options do not") {
  const auto outcomes = RunRanks(2, absl::Seconds(30), [](const World& world) -> absl::Status {
    setenv("DISTILL_COMM_ALGORITHM", "tree", 1);
    DISTILL_RETURN_IF_ERROR(ExpectError(Join(world, Options(AlgorithmPreference::kAuto)).status(),
                                        absl::StatusCode::kInvalidArgument, {"comm_algorithm is 'tree'"}));
    return absl::OkStatus();
  });
  CHECK(Failures(outcomes) == "");
  const auto without_file = RunRanks(2, absl::Seconds(30), [](const World& world) -> absl::Status {
    if (world.rank == 0) setenv("DISTILL_COMM_TUNING_FILE", "/nowhere/at/all", 1);
    return ExpectError(Join(world, Options(AlgorithmPreference::kAuto)).status(), absl::StatusCode::kNotFound,
                       {"rank 0 on ", "cannot read the tuning file /nowhere/at/all: No such file or directory"});
  });
  CHECK(Failures(without_file) == "");
}

}  // namespace
}  // namespace distill
