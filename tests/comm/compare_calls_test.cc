// The debug mode: ranks that make different collectives get both ranks' view, over every backend of this host.

#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::Join;
using testing::RunRanks;

constexpr auto kLimit = absl::Seconds(20);

// One rank that asks is enough.
CommunicatorOptions Options(const World& world, BackendPreference backend) {
  return {.backend = backend, .timeout = absl::Seconds(60), .debug = world.rank == 1};
}

using Call = std::function<absl::Status(Communicator&, bool odd)>;

struct Mismatch {
  const char* name;
  Call call;  // rank 2 alone is odd
  std::vector<std::string> parts;
};

float buffer[64];

const std::vector<Mismatch> kMismatches = {
    {"count",
     [](Communicator& c, bool odd) {
       return c.AllReduce(buffer, buffer, odd ? 5 : 4, DType::kFloat32, ReduceOp::kSum);
     },
     {"all-reduce number 2 over ", "calls all-reduce of 4 float32 (sum)", "calls all-reduce of 5 float32 (sum)"}},
    {"type",
     [](Communicator& c, bool odd) {
       return c.AllReduce(buffer, buffer, 4, odd ? DType::kInt32 : DType::kFloat32, ReduceOp::kMax);
     },
     {"of 4 float32 (max)", "of 4 int32 (max)"}},
    {"op",
     [](Communicator& c, bool odd) {
       return c.ReduceScatter(buffer, buffer, 4, DType::kInt32, odd ? ReduceOp::kMin : ReduceOp::kMax);
     },
     {"reduce-scatter of 4 int32 (max)", "reduce-scatter of 4 int32 (min)"}},
    {"root",
     [](Communicator& c, bool odd) { return c.Broadcast(buffer, 4, DType::kUInt8, odd ? 1 : 0); },
     {"broadcast of 4 uint8 from rank 0", "broadcast of 4 uint8 from rank 1"}},
    {"operation",
     [](Communicator& c, bool odd) { return odd ? c.Barrier() : c.AllGather(buffer + 60, buffer, 4, DType::kFloat32); },
     {"calls all-gather of 4 float32", "calls barrier"}},
    {"allocation",
     [](Communicator& c, bool odd) { return c.Allocate(odd ? 8192 : 4096).status(); },
     {"allocate of 4096", "allocate of 8192"}},
    {"extra call",
     [](Communicator& c, bool odd) -> absl::Status {
       if (odd) DISTILL_RETURN_IF_ERROR(c.Barrier());
       return c.AllReduce(buffer, buffer, 4, DType::kFloat32, ReduceOp::kSum);
     },
     {"calls all-reduce of 4 float32 (sum)", "calls barrier"}},
};

}  // namespace

TEST_CASE("ranks that make different collectives are told so in debug mode, with both ranks' view") {
  for (const BackendPreference backend : testing::Backends()) {
    for (const Mismatch& mismatch : kMismatches) {
      INFO(mismatch.name << " over " << FieldText(backend));
      const auto outcomes = RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
        DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, Options(world, backend)));
        comm->SetErrorContext([&world] { return "step " + std::to_string(7 + world.rank); });  // is not compared
        DISTILL_RETURN_IF_ERROR(comm->Barrier());
        std::vector<std::string> parts = mismatch.parts;
        parts.insert(parts.end(), {"rank 0 on", "(step 7)", "rank 2 on", "(step 9)", "do not make the same calls"});
        return ExpectError(mismatch.call(*comm, world.rank == 2), absl::StatusCode::kFailedPrecondition, parts);
      });
      CHECK(Failures(outcomes) == "");
    }
  }
}

TEST_CASE("the same collectives have their results in debug mode, also over what was split off") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, Options(world, backend)));
      DISTILL_ASSIGN_OR_RETURN(const auto part, comm->Split(world.rank > 0 ? 1 : 0, 0));
      for (int64_t i = 0; i < 50; ++i) {
        int64_t sum = world.rank + i;
        DISTILL_RETURN_IF_ERROR(comm->AllReduce(&sum, &sum, 1, DType::kInt64, ReduceOp::kSum));
        DISTILL_RETURN_IF_ERROR(Expect(sum == 3 + 3 * i, "another sum"));
        DISTILL_RETURN_IF_ERROR(part->Barrier());
      }
      if (world.rank == 0) return absl::OkStatus();
      const absl::Status status = part->Broadcast(buffer, world.rank, DType::kFloat32, 0);
      return ExpectError(status, absl::StatusCode::kFailedPrecondition, {"of 1 float32", "of 2 float32"});
    });
    CHECK(Failures(outcomes) == "");
  }
}

}  // namespace distill
