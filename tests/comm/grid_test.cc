// The grid of collectives over shared memory and over the fabric, with ranks as real processes.

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/collectives_grid.h"
#include "tests/comm/efa_like_ranks.h"
#include "tests/comm/load_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;

using Body = std::function<absl::Status(Communicator&)>;

// Runs the body on every rank, over the backend, which must be the one that moves the bytes.
std::string RunOver(BackendPreference backend, int ranks, const Body& body) {
  testing::LoadFabric();
  return Failures(RunRanks(ranks, absl::Seconds(60), [&](const World& world) -> absl::Status {
    CommunicatorOptions options;
    options.backend = backend;
    options.timeout = absl::Seconds(20);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
    const std::string expected = ranks == 1                            ? "alone"
                                 : backend == BackendPreference::kAuto ? "shm"
                                                                       : FieldText(backend);
    DISTILL_RETURN_IF_ERROR(Expect(comm->backend() == expected, absl::StrCat("over ", std::string(comm->backend()))));
    return body(*comm);
  }));
}

absl::Status WholeGrid(Communicator& comm) { return testing::CheckCollectives(comm, {}); }

TEST_CASE("every collective is exact over shared memory", "[one_host]") {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8}) CHECK(RunOver(BackendPreference::kShm, ranks, WholeGrid) == "");
}

TEST_CASE("every collective is exact over the fabric") {
  for (const int ranks : {1, 2, 3, 4}) CHECK(RunOver(BackendPreference::kFabric, ranks, WholeGrid) == "");
  for (const int ranks : testing::RanksToTry({5, 6, 7, 8})) {
    CHECK(RunOver(BackendPreference::kFabric, ranks, [](Communicator& comm) {
            DISTILL_RETURN_IF_ERROR(
                testing::CheckCollectives(comm, {.counts = {3, 1009}, .dtypes = {DType::kBFloat16, DType::kInt64}}));
            return testing::CheckCollectives(comm, {.counts = {11}, .dtypes = testing::kOtherTypes});
          }) == "");
  }
}

TEST_CASE("every collective is exact in registered memory, and where only some ranks use it") {
  for (const testing::BufferKind kind : {testing::BufferKind::kRegistered, testing::BufferKind::kMixed}) {
    const auto grid = [kind](Communicator& comm) {
      return testing::CheckCollectives(comm, {.buffers = kind, .counts = {0, 1, 1009, 5003}});
    };
    for (const int ranks : {1, 2, 3, 4}) CHECK(RunOver(BackendPreference::kShm, ranks, grid) == "");
    CHECK(RunOver(BackendPreference::kFabric, 2, grid) == "");
    CHECK(RunOver(BackendPreference::kShm, 3,
                  [kind](Communicator& comm) { return testing::CheckLargeCollectives(comm, 5 << 20, kind); }) == "");
  }
}

TEST_CASE("registered memory is freed by each rank for itself", "[one_host]") {
  CHECK(RunOver(BackendPreference::kShm, 2, [](Communicator& comm) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(auto first, comm.Allocate(1 << 20));
          DISTILL_ASSIGN_OR_RETURN(auto second, comm.Allocate(1 << 20));
          if (comm.rank() == 0) first.reset();
          float* data = reinterpret_cast<float*>((comm.rank() == 0 ? second : first)->data());
          for (int i = 0; i < 10000; ++i) data[i] = static_cast<float>(comm.rank() + 1);
          DISTILL_RETURN_IF_ERROR(comm.AllReduce(data, data, 10000, DType::kFloat32, ReduceOp::kSum));
          for (int i = 0; i < 10000; ++i) DISTILL_RETURN_IF_ERROR(Expect(data[i] == 3, absl::StrCat("at ", i)));
          return absl::OkStatus();
        }) == "");
}

TEST_CASE("ranks that call different collectives get an error with both views", "[one_host]") {
  const std::string failures = RunOver(BackendPreference::kShm, 2, [](Communicator& comm) {
    int64_t value = 1;
    return comm.rank() == 0 ? comm.AllReduce(&value, &value, 1, DType::kInt64, ReduceOp::kSum) : comm.Barrier();
  });
  INFO(failures);
  CHECK(failures.find("rank 0 on ") != std::string::npos);
  CHECK(failures.find("calls all-reduce of 1 int64 (sum)") != std::string::npos);
  CHECK(failures.find("calls barrier") != std::string::npos);
}

TEST_CASE("large collectives are exact") {
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    for (const int ranks : {2, 3}) {
      CHECK(RunOver(backend, ranks, [](Communicator& comm) { return testing::CheckLargeCollectives(comm, 5 << 20); }) ==
            "");
    }
  }
}

TEST_CASE("an all-reduce of 64 MiB is exact over shared memory", "[one_host]") {
  CHECK(RunOver(BackendPreference::kAuto, 2, [](Communicator& comm) -> absl::Status {
          std::vector<float> data(16 << 20);
          for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 1000 + comm.rank());
          DISTILL_RETURN_IF_ERROR(comm.AllReduce(data.data(), data.data(), static_cast<int64_t>(data.size()),
                                                 DType::kFloat32, ReduceOp::kSum));
          for (size_t i = 0; i < data.size(); ++i) {
            if (data[i] != static_cast<float>(2 * (i % 1000) + 1)) return absl::InternalError(absl::StrCat("at ", i));
          }
          return absl::OkStatus();
        }) == "");
}

TEST_CASE("all ranks end with the same bits, and the same call gives them again") {
  CHECK(RunOver(BackendPreference::kShm, 3, testing::CheckSameBits) == "");
  CHECK(RunOver(BackendPreference::kFabric, 3, testing::CheckSameBits) == "");
}

TEST_CASE("bfloat16 is rounded once over shared memory", "[one_host]") {
  CHECK(RunOver(BackendPreference::kShm, 3, [](Communicator& comm) -> absl::Status {
          // 256 + 1 + 1: rounded after each addition it would stay 256.
          std::vector<uint16_t> data(5000, comm.rank() == 0 ? 0x4380 : 0x3f80);
          DISTILL_RETURN_IF_ERROR(comm.AllReduce(data.data(), data.data(), 5000, DType::kBFloat16, ReduceOp::kSum));
          for (const uint16_t x : data) DISTILL_RETURN_IF_ERROR(Expect(x == 0x4381, absl::StrCat("got ", x)));
          return absl::OkStatus();
        }) == "");
}

}  // namespace
}  // namespace distill
