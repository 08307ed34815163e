// The fabric that behaves like efa (efa_like_fabric.h): that it does so, and what only its faults show. What is exact
// over the fabric as it is, is tried over this one by the same programs (comm_like_efa and its siblings in
// CMakeLists.txt).
#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_endpoint.h"
#include "tests/comm/collectives_grid.h"
#include "tests/comm/efa_like_fabric.h"
#include "tests/comm/join.h"
#include "tests/comm/load_fabric.h"
#include "tests/comm/watch_fabric.h"
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
  int rails = 2;
};

// What went wrong, with the ranks that it did on; "" for nothing.
std::string Run(const Job& job, const Body& body) {
  testing::LoadFabric();
  const int ranks = job.hosts.empty() ? job.ranks : static_cast<int>(job.hosts.size());
  return Failures(RunRanks(ranks, absl::Seconds(200), [&](World world) -> absl::Status {
    if (job.writes) setenv("DISTILL_FABRIC_WRITES", "1", 1);
    DISTILL_RETURN_IF_ERROR(EfaLikeFabric::Install(100 * job.seed + static_cast<uint64_t>(world.rank), job.rails));
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

TEST_CASE("the fabric like efa does what it is there for") {
  for (const int rails : {1, 2, 4}) {
    CAPTURE(rails);
    CHECK(Run({.ranks = 2, .algorithm = AlgorithmPreference::kRing, .writes = true, .rails = rails},
              [rails](Communicator& comm) {
                DISTILL_RETURN_IF_ERROR(testing::CheckLargeCollectives(comm, 5 << 20, BufferKind::kRegistered));
                const EfaLikeFabric::Counts counts = EfaLikeFabric::counts();
                if (comm.rank() == 0) std::fprintf(stderr, "%s\n", counts.Text().c_str());
                for (const int64_t count : {counts.refused, counts.full_sends, counts.handshakes, counts.refused_writes,
                                            counts.overtaken, counts.held, counts.anybody}) {
                  DISTILL_RETURN_IF_ERROR(Expect(count > 0, counts.Text()));
                }
                return Expect(counts.rails == rails && (counts.slow > 0) == (rails > 1) && counts.invalid == 0 &&
                                  counts.failed == 0,
                              counts.Text());
              }) == "");
  }
}

TEST_CASE(
    "a fabric like efa refuses what is not registered or is too much, holds few receives, and ends one that is "
    "cancelled") {
  CHECK(Failures(RunRanks(1, absl::Seconds(60), [](const World&) -> absl::Status {
          DISTILL_RETURN_IF_ERROR(EfaLikeFabric::Install(1, 1));
          static fid_ep* opened = nullptr;
          DISTILL_RETURN_IF_ERROR(
              testing::WatchedFabric::Watch({.on_endpoint = [](fid_ep& endpoint) { opened = &endpoint; }}));
          FabricOptions one_rail;
          one_rail.max_rails = 1;
          DISTILL_ASSIGN_OR_RETURN(const auto endpoint, FabricEndpoint::Create(one_rail));
          DISTILL_RETURN_IF_ERROR(endpoint->Connect({endpoint->address()}, {"itself"}));
          std::vector<char> data(1000);
          FabricOperation operation;
          DISTILL_RETURN_IF_ERROR(ExpectError(endpoint->Send(0, 1, data.data(), 1000, {}, &operation).status(),
                                              absl::StatusCode::kUnavailable, {"Invalid argument"}));
          DISTILL_ASSIGN_OR_RETURN(const FabricMemory part, endpoint->Register(data.data(), 999));
          DISTILL_RETURN_IF_ERROR(ExpectError(endpoint->Send(0, 1, data.data(), 1000, part, &operation).status(),
                                              absl::StatusCode::kUnavailable, {"Invalid argument"}));
          constexpr uint64_t kFiveBytes = uint64_t{1} << 32;
          DISTILL_RETURN_IF_ERROR(
              Expect(fi_writedata(opened, nullptr, 0, nullptr, kFiveBytes, 0, 0, 0, nullptr) == -FI_EINVAL, "5 bytes"));
          std::vector<FabricOperation> receives(13);  // one more than the queue takes
          size_t started = 0;
          const auto start = [&]() -> absl::Status {
            FabricOperation& next = receives[started];
            DISTILL_ASSIGN_OR_RETURN(const bool taken, endpoint->Receive(0, started, data.data(), 999, part, &next));
            started += taken ? 1 : 0;
            return absl::OkStatus();
          };
          while (EfaLikeFabric::counts().full_receives == 0) DISTILL_RETURN_IF_ERROR(start());
          DISTILL_RETURN_IF_ERROR(Expect(started == 12, absl::StrCat("full with ", started)));
          DISTILL_RETURN_IF_ERROR(Expect(fi_cancel(&opened->fid, &receives[3]) == 0, "fi_cancel"));
          while (!receives[3].done) DISTILL_RETURN_IF_ERROR(endpoint->Poll().status());
          DISTILL_RETURN_IF_ERROR(ExpectError(receives[3].status, absl::StatusCode::kUnavailable, {"canceled"}));
          while (started < 13) DISTILL_RETURN_IF_ERROR(start());  // there is a place again
          endpoint->Withdraw();
          const EfaLikeFabric::Counts counts = EfaLikeFabric::counts();
          return Expect(counts.invalid == 3 && counts.cancelled == 1, counts.Text());
        })) == "");
}

TEST_CASE("over a fabric like efa a message that is too long is an error of its receiver, and the next one arrives") {
  CHECK(Failures(RunRanks(1, absl::Seconds(60), [](const World&) -> absl::Status {
          DISTILL_RETURN_IF_ERROR(EfaLikeFabric::Install(1, 1));
          FabricOptions one_rail;
          one_rail.max_rails = 1;
          DISTILL_ASSIGN_OR_RETURN(const auto endpoint, FabricEndpoint::Create(one_rail));
          DISTILL_RETURN_IF_ERROR(endpoint->Connect({endpoint->address()}, {"itself"}));
          std::vector<char> out(100'000, 'x'), in(100'000);
          DISTILL_ASSIGN_OR_RETURN(const FabricMemory from, endpoint->Register(out.data(), out.size()));
          DISTILL_ASSIGN_OR_RETURN(const FabricMemory to, endpoint->Register(in.data(), in.size()));
          for (const size_t expected : {size_t{99'000}, out.size()}) {
            FabricOperation send, receive;
            for (bool sends = false, receives = false; !sends || !receives || !send.done || !receive.done;) {
              if (!receives) {
                DISTILL_ASSIGN_OR_RETURN(receives, endpoint->Receive(0, expected, in.data(), expected, to, &receive));
              }
              if (!sends) {
                DISTILL_ASSIGN_OR_RETURN(sends, endpoint->Send(0, expected, out.data(), out.size(), from, &send));
              }
              DISTILL_RETURN_IF_ERROR(endpoint->Poll().status());
            }
            DISTILL_RETURN_IF_ERROR(send.status);
            if (expected == out.size()) {
              DISTILL_RETURN_IF_ERROR(receive.status);
              DISTILL_RETURN_IF_ERROR(Expect(in == out, "other bytes"));
            } else {
              DISTILL_RETURN_IF_ERROR(ExpectError(receive.status, absl::StatusCode::kFailedPrecondition,
                                                  {"itself sent more bytes", "expects 99000"}));
              DISTILL_RETURN_IF_ERROR(Expect(in[99'000] == 0, "bytes behind the buffer"));
            }
          }
          return Expect(EfaLikeFabric::counts().truncated == 1, EfaLikeFabric::counts().Text());
        })) == "");
}

// Of any rail, and of one of four.
TEST_CASE("an error without a context ends the call on every rank with the provider's text") {
  for (const std::string hosts : {"", "AABB"}) {
    for (const int failing : {-1, 2}) {
      CAPTURE(hosts, failing);
      CHECK(Run({.ranks = 3, .hosts = hosts, .rails = failing < 0 ? 1 : 4},
                [failing](Communicator& comm) -> absl::Status {
                  if (comm.rank() == 1) EfaLikeFabric::FailSoon(50, failing);
                  std::vector<float> data(2 << 20);
                  absl::Status status;
                  const absl::Time begin = absl::Now();
                  while (status.ok() && absl::Now() < begin + absl::Seconds(100)) {
                    status = comm.AllReduce(data.data(), data.data(), 2 << 20, DType::kFloat32, ReduceOp::kSum);
                  }
                  const int64_t failed = EfaLikeFabric::counts().failed;
                  DISTILL_RETURN_IF_ERROR(
                      Expect(failed == (comm.rank() == 1 ? 1 : 0), absl::StrCat(failed, " failed")));
                  return ExpectError(status, absl::StatusCode::kUnavailable, {"the fabric failed: Input/output error"});
                }) == "");
    }
  }
}

}  // namespace
}  // namespace distill
