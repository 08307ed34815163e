// Every collective, algorithm and way of the data over a fabric that behaves like efa (efa_like_fabric.h), with ranks
// as real processes: the tests of the grid, of algorithms, of writes, of two levels and of random schedules once more.
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/collectives_grid.h"
#include "tests/comm/efa_like_fabric.h"
#include "tests/comm/join.h"
#include "tests/comm/load_fabric.h"
#include "tests/comm/random_schedule.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::BufferKind;
using testing::EfaLikeFabric;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

using Body = std::function<absl::Status(Communicator&)>;

struct Job {
  int ranks = 2;
  std::string hosts = {};  // of every rank, a letter each: in two levels; empty: over the fabric alone
  AlgorithmPreference algorithm = AlgorithmPreference::kAuto;
  bool writes = false;
  uint64_t seed = 1;
};

// What went wrong, with the ranks that it did on; "" for nothing.
std::string Run(const Job& job, const Body& body) {
  testing::LoadFabric();
  const int ranks = job.hosts.empty() ? job.ranks : static_cast<int>(job.hosts.size());
  return Failures(RunRanks(ranks, absl::Seconds(200), [&](World world) -> absl::Status {
    if (job.writes) setenv("DISTILL_FABRIC_WRITES", "1", 1);
    DISTILL_RETURN_IF_ERROR(EfaLikeFabric::Install(100 * job.seed + static_cast<uint64_t>(world.rank)));
    CommunicatorOptions options = {.backend = BackendPreference::kFabric, .algorithm = job.algorithm};
    options.timeout = absl::Seconds(60);
    if (!job.hosts.empty()) {
      world.host = world.host_id = absl::StrCat("host-", job.hosts.substr(static_cast<size_t>(world.rank), 1));
      options.backend = BackendPreference::kAuto;
    }
    DISTILL_ASSIGN_OR_RETURN(const auto comm, testing::Join(world, options));
    DISTILL_RETURN_IF_ERROR(Expect(comm->backend() == (job.hosts.empty() ? "fabric" : "shm+fabric"),
                                   absl::StrCat("over ", std::string(comm->backend()))));
    return body(*comm);
  }));
}

TEST_CASE("every collective is exact over a fabric like efa") {
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(Run({.ranks = ranks}, [](Communicator& comm) { return testing::CheckCollectives(comm, {}); }) == "");
  }
  for (const int ranks : {5, 6, 7, 8}) {
    CAPTURE(ranks);
    CHECK(Run({.ranks = ranks}, [](Communicator& comm) -> absl::Status {
            DISTILL_RETURN_IF_ERROR(
                testing::CheckCollectives(comm, {.counts = {3, 1009}, .dtypes = {DType::kBFloat16, DType::kInt64}}));
            return testing::CheckCollectives(comm, {.counts = {11}, .dtypes = testing::kOtherTypes});
          }) == "");
  }
}

TEST_CASE("every kind of buffer and long calls are exact over a fabric like efa, written or sent") {
  for (const bool writes : {false, true}) {
    for (const BufferKind kind : {BufferKind::kRegistered, BufferKind::kMixed, BufferKind::kShifted}) {
      CAPTURE(writes, static_cast<int>(kind));
      CHECK(Run({.ranks = 3, .writes = writes}, [kind](Communicator& comm) -> absl::Status {
              DISTILL_RETURN_IF_ERROR(testing::CheckCollectives(
                  comm, {.buffers = kind, .counts = {1, 5003}, .dtypes = {DType::kFloat32, DType::kFloat16}}));
              return testing::CheckLargeCollectives(comm, 3 << 20, kind);
            }) == "");
    }
  }
}

TEST_CASE("every algorithm is exact over a fabric like efa") {
  for (const AlgorithmPreference algorithm :
       {AlgorithmPreference::kRecursiveDoubling, AlgorithmPreference::kDirectExchange,
        AlgorithmPreference::kRabenseifner, AlgorithmPreference::kBinomialTree, AlgorithmPreference::kBinaryTree,
        AlgorithmPreference::kRing}) {
    for (const int ranks : {2, 3, 5}) {
      CAPTURE(FieldText(algorithm), ranks);
      CHECK(Run({.ranks = ranks, .algorithm = algorithm}, [](Communicator& comm) -> absl::Status {
              const testing::GridOptions grid = {.counts = {0, 1, 1009, 200'003},
                                                 .dtypes = {DType::kFloat32, DType::kBFloat16}};
              DISTILL_RETURN_IF_ERROR(testing::CheckAllReduces(comm, grid));
              DISTILL_RETURN_IF_ERROR(testing::CheckRooted(comm, grid));
              return testing::CheckSameBits(comm);
            }) == "");
    }
  }
}

TEST_CASE("two levels are exact over a fabric like efa") {
  for (const std::string hosts : {"AABB", "ABB", "ABAB"}) {
    CAPTURE(hosts);
    CHECK(Run({.hosts = hosts}, [](Communicator& comm) -> absl::Status {
            DISTILL_RETURN_IF_ERROR(
                testing::CheckCollectives(comm, {.counts = {1, 1009}, .dtypes = {DType::kFloat32, DType::kBFloat16}}));
            return testing::CheckLargeCollectives(comm, 9 << 20, BufferKind::kMixed);
          }) == "");
  }
}

TEST_CASE("random schedules and splits come out right over a fabric like efa") {
  for (const uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    const auto schedule = [seed](Communicator& comm) { return testing::RunRandomSchedule(comm, seed, 60); };
    CHECK(Run({.ranks = 3, .seed = seed}, schedule) == "");
    CHECK(Run({.hosts = "AABB", .seed = seed}, schedule) == "");
  }
}

TEST_CASE("the fabric like efa does what it is there for") {
  CHECK(Run({.ranks = 2, .algorithm = AlgorithmPreference::kRing, .writes = true}, [](Communicator& comm) {
          DISTILL_RETURN_IF_ERROR(testing::CheckLargeCollectives(comm, 5 << 20, BufferKind::kRegistered));
          const EfaLikeFabric::Counts counts = EfaLikeFabric::counts();
          const std::string all = absl::StrCat(counts.refused, " starts refused, ", counts.overtaken, " overtaken, ",
                                               counts.held, " completions held back for a poll, ", counts.handshakes,
                                               " handshakes, ", counts.full, " refused where a queue was full");
          if (comm.rank() == 0) std::fprintf(stderr, "%s\n", all.c_str());
          return Expect(
              counts.refused > 0 && counts.overtaken > 0 && counts.held > 0 && counts.handshakes > 0 && counts.full > 0,
              all);
        }) == "");
}

TEST_CASE("an error without a context ends the call on every rank with the provider's text") {
  for (const std::string hosts : {"", "AABB"}) {
    CAPTURE(hosts);
    CHECK(Run({.ranks = 3, .hosts = hosts}, [](Communicator& comm) -> absl::Status {
            if (comm.rank() == 1) EfaLikeFabric::FailSoon(50);
            std::vector<float> data(2 << 20);
            absl::Status status;
            const absl::Time begin = absl::Now();
            while (status.ok() && absl::Now() < begin + absl::Seconds(100)) {
              status = comm.AllReduce(data.data(), data.data(), 2 << 20, DType::kFloat32, ReduceOp::kSum);
            }
            return ExpectError(status, absl::StatusCode::kUnavailable, {"the fabric failed: Input/output error"});
          }) == "");
  }
}

}  // namespace
}  // namespace distill
