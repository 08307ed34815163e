// Ranks that do not make the same calls end with an error and both views, over every way that bytes take.
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/call_board.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/load_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;

using Calls = absl::Status (*)(Communicator& comm, float* x);

struct Mismatch {
  Calls odd;     // what the last rank calls
  Calls others;  // and the others
  std::string odd_view;
  std::string others_view;
};

const std::vector<Mismatch>& Mismatches() {
  static const std::vector<Mismatch> mismatches = {
      {[](Communicator& c, float* x) { return c.AllReduce(x, x, 8, DType::kFloat32, ReduceOp::kSum); },
       [](Communicator& c, float* x) { return c.AllReduce(x, x, 8, DType::kFloat32, ReduceOp::kMax); },
       "all-reduce of 8 float32 (sum)", "all-reduce of 8 float32 (max)"},
      {[](Communicator& c, float* x) { return c.AllReduce(x, x, 8, DType::kInt32, ReduceOp::kSum); },
       [](Communicator& c, float* x) { return c.AllReduce(x, x, 8, DType::kFloat32, ReduceOp::kSum); },
       "all-reduce of 8 int32 (sum)", "all-reduce of 8 float32 (sum)"},
      {[](Communicator& c, float* x) { return c.AllGather(x, x + 10, 7, DType::kFloat32); },
       [](Communicator& c, float* x) { return c.AllGather(x, x + 10, 8, DType::kFloat32); }, "all-gather of 7 float32",
       "all-gather of 8 float32"},
      {[](Communicator& c, float* x) { return c.Broadcast(x, 8, DType::kFloat32, 1); },
       [](Communicator& c, float* x) { return c.Broadcast(x, 8, DType::kFloat32, 0); },
       "broadcast of 8 float32 from rank 1", "broadcast of 8 float32 from rank 0"},
      {[](Communicator& c, float* x) { return c.AllGather(x, x + 10, 8, DType::kFloat32); },
       [](Communicator& c, float* x) { return c.Broadcast(x, 8, DType::kFloat32, 0); }, "all-gather of 8 float32",
       "broadcast of 8 float32 from rank 0"},
      {[](Communicator& c, float*) { return c.Barrier(); },
       [](Communicator& c, float* x) { return c.AllReduce(x, x, 8, DType::kFloat32, ReduceOp::kSum); }, "barrier",
       "all-reduce of 8 float32 (sum)"},
  };
  return mismatches;
}

// Over shared memory, then over the fabric.
constexpr BackendPreference kBackends[] = {BackendPreference::kShm, BackendPreference::kFabric};

absl::Status MakeCalls(BackendPreference backend, const Mismatch& mismatch, const World& world) {
  CommunicatorOptions options;
  options.backend = backend;
  options.timeout = absl::Seconds(20);
  DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
  std::vector<float> x(100);
  const absl::Time start = absl::Now();
  const bool odd = world.rank == world.world_size - 1;
  absl::Status status = (odd ? mismatch.odd : mismatch.others)(*comm, x.data());
  // Who has sent all that it has to send continues, and hears of it in the next call.
  if (status.ok()) status = comm->Barrier();
  const absl::Duration took = absl::Now() - start;
  DISTILL_RETURN_IF_ERROR(Expect(took < absl::Seconds(15), absl::StrCat("took ", absl::FormatDuration(took))));
  return ExpectError(status, absl::StatusCode::kFailedPrecondition,
                     {"ranks do not make the same calls", absl::StrCat("calls ", mismatch.odd_view),
                      absl::StrCat("calls ", mismatch.others_view)});
}

TEST_CASE("ranks that disagree on shape, type, operation, root or order get an error with both views, and none hangs") {
  testing::LoadFabric();
  const size_t kinds = Mismatches().size();
  for (const int ranks : {2, 3}) {
    const auto jobs =
        testing::RunJobs(static_cast<int>(2 * kinds), ranks, absl::Seconds(40), [&](int job, const World& world) {
          const size_t which = static_cast<size_t>(job);
          return MakeCalls(kBackends[which / kinds], Mismatches()[which % kinds], world);
        });
    for (size_t job = 0; job < jobs.size(); ++job) {
      const Mismatch& mismatch = Mismatches()[job % kinds];
      const std::string what = absl::StrCat(mismatch.odd_view, " against ", mismatch.others_view, " over ",
                                            FieldText(kBackends[job / kinds]));
      CAPTURE(what, ranks);
      testing::PrintTimes(what, jobs[job]);
      CHECK(Failures(jobs[job]) == "");
    }
  }
}

TEST_CASE("the board of calls keeps the last ones, in order") {
  CallBoard board;
  CHECK(board.Read().empty());
  for (int64_t number = 1; number <= 10; ++number) {
    board.Add({.operation = CommOperation::kReduce, .count = 2, .op = ReduceOp::kMin, .root = 1, .number = number});
  }
  const std::vector<CommCall> calls = board.Read();
  REQUIRE(calls.size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(calls[i].number == static_cast<int64_t>(7 + i));
  CHECK(Describe(calls[0].signature()) == "reduce of 2 uint8 (min) to rank 1");
  CommCall other = calls[0];
  CHECK(FingerprintOf(other.signature()) == FingerprintOf(calls[3].signature()));
  other.root = 0;
  CHECK(FingerprintOf(other.signature()) != FingerprintOf(calls[3].signature()));
}

}  // namespace
}  // namespace distill
