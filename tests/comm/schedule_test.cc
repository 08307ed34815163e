// Many calls in a row, of every kind, over several communicators at once.
#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/efa_like_ranks.h"
#include "tests/comm/load_fabric.h"
#include "tests/comm/random_schedule.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;

std::string RunOver(BackendPreference backend, int ranks, const std::function<absl::Status(Communicator&)>& body) {
  testing::LoadFabric();
  return Failures(RunRanks(ranks, absl::Seconds(120), [&](const World& world) -> absl::Status {
    setenv("FI_TCP_IFACE", "lo", 1);
    CommunicatorOptions options;
    options.backend = backend;
    options.timeout = absl::Seconds(60);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
    DISTILL_RETURN_IF_ERROR(
        Expect(comm->backend() == FieldText(backend), absl::StrCat("over ", std::string(comm->backend()))));
    return body(*comm);
  }));
}

TEST_CASE("random schedules of calls over several communicators give what one process computes") {
  for (const uint64_t seed : {1, 2, 3}) {
    const auto schedule = [seed](Communicator& comm) { return testing::RunRandomSchedule(comm, seed, 150); };
    CAPTURE(seed);
    for (const int ranks : {2, 5}) CHECK(RunOver(BackendPreference::kShm, ranks, schedule) == "");
    CHECK(RunOver(BackendPreference::kFabric, 3, schedule) == "");
  }
}

TEST_CASE("ten thousand small calls in a row stay in step") {
  const auto calls = [](Communicator& comm) -> absl::Status {
    const int n = comm.world_size();
    for (int i = 0; i < testing::CallsInARow(2000); ++i) {
      const std::string round = absl::StrCat("round ", i);
      int64_t value = i * (comm.rank() + 1);
      DISTILL_RETURN_IF_ERROR(comm.AllReduce(&value, &value, 1, DType::kInt64, ReduceOp::kSum));
      DISTILL_RETURN_IF_ERROR(Expect(value == i * n * (n + 1) / 2, round));
      DISTILL_RETURN_IF_ERROR(comm.Reduce(&value, &value, 1, DType::kInt64, ReduceOp::kMax, i % n));
      std::vector<int64_t> mine(static_cast<size_t>(n), comm.rank() + i), theirs(mine.size());
      DISTILL_RETURN_IF_ERROR(comm.AllToAll(mine.data(), theirs.data(), 1, DType::kInt64));
      for (int r = 0; r < n; ++r) DISTILL_RETURN_IF_ERROR(Expect(theirs[static_cast<size_t>(r)] == r + i, round));
      int32_t token = i;
      if (comm.rank() == 0) DISTILL_RETURN_IF_ERROR(comm.Send(&token, 1, DType::kInt32, 1));
      if (comm.rank() == 1) DISTILL_RETURN_IF_ERROR(comm.Receive(&(token = 0), 1, DType::kInt32, 0));
      DISTILL_RETURN_IF_ERROR(Expect(token == i, round));
      DISTILL_RETURN_IF_ERROR(comm.Barrier());
    }
    return absl::OkStatus();
  };
  CHECK(RunOver(BackendPreference::kShm, 2, calls) == "");
  CHECK(RunOver(BackendPreference::kShm, 4, calls) == "");
  CHECK(RunOver(BackendPreference::kFabric, 2, calls) == "");
}

TEST_CASE("eight ranks make progress however few cores there are") {
  CHECK(RunOver(BackendPreference::kShm, 8, [](Communicator& comm) -> absl::Status {
          std::vector<float> large(1 << 18);
          for (int i = 0; i < 10'000; ++i) {
            float value = static_cast<float>(comm.rank() + i % 100);
            DISTILL_RETURN_IF_ERROR(comm.AllReduce(&value, &value, 1, DType::kFloat32, ReduceOp::kSum));
            DISTILL_RETURN_IF_ERROR(Expect(value == static_cast<float>(28 + 8 * (i % 100)), absl::StrCat("round ", i)));
            if (i % 500 != 0) continue;
            large.assign(large.size(), static_cast<float>(comm.rank()));
            DISTILL_RETURN_IF_ERROR(
                comm.AllReduce(large.data(), large.data(), 1 << 18, DType::kFloat32, ReduceOp::kSum));
            DISTILL_RETURN_IF_ERROR(Expect(large.front() == 28 && large.back() == 28, absl::StrCat("large, ", i)));
          }
          return absl::OkStatus();
        }) == "");
}

}  // namespace
}  // namespace distill
