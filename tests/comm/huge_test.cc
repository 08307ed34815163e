// Buffers of 2^31 + 5 bytes, which no 32-bit count of bytes or elements holds, and counts that no 63 bits hold.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;

constexpr int64_t kHuge = (int64_t{1} << 31) + 5;
// What repeats is no power of two, so that no shift by one stays unnoticed.
constexpr int64_t kPeriod = 65'521;

std::vector<char> Pattern(int salt) {
  std::vector<char> pattern(kPeriod);
  for (int64_t i = 0; i < kPeriod; ++i) pattern[static_cast<size_t>(i)] = static_cast<char>(i % 101 + i / 4099 + salt);
  return pattern;
}

void Fill(char* data, int salt, int64_t bytes = kHuge) {
  const std::vector<char> pattern = Pattern(salt);
  for (int64_t i = 0; i < bytes; i += kPeriod) {
    std::memcpy(data + i, pattern.data(), static_cast<size_t>(std::min(kPeriod, bytes - i)));
  }
}

absl::Status Verify(const char* data, int salt, const char* what, int64_t bytes = kHuge) {
  const std::vector<char> pattern = Pattern(salt);
  for (int64_t i = 0; i < bytes; i += kPeriod) {
    const bool same = std::memcmp(data + i, pattern.data(), static_cast<size_t>(std::min(kPeriod, bytes - i))) == 0;
    DISTILL_RETURN_IF_ERROR(Expect(same, absl::StrCat(what, ": wrong between bytes ", i, " and ", i + kPeriod)));
  }
  return absl::OkStatus();
}

absl::Status CheckHugeMax(Communicator& comm, char* data) {
  Fill(data, comm.rank() == 0 ? 1 : 2);
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(data, data, kHuge, DType::kUInt8, ReduceOp::kMax));
  return Verify(data, 2, "all-reduce");
}

// Of two ranks' blocks, which together are longer than 2^31 bytes, and whose values say from whom and for whom they
// are.
absl::Status CheckHugeBlocks(Communicator& comm, char* data) {
  constexpr int64_t kBlock = kHuge / 2 + 1;
  const int me = comm.rank();
  char* other = data + kHuge;
  const auto salt = [](int from, int to) { return 10 * to + from; };
  for (const int to : {0, 1}) Fill(data + to * kBlock, salt(me, to), kBlock);
  DISTILL_RETURN_IF_ERROR(comm.AllToAll(data, other + 1, kBlock, DType::kUInt8));
  for (const int from : {0, 1}) {
    DISTILL_RETURN_IF_ERROR(Verify(other + 1 + from * kBlock, salt(from, me), "all-to-all", kBlock));
  }
  DISTILL_RETURN_IF_ERROR(comm.ReduceScatter(data, other + 1, kBlock, DType::kUInt8, ReduceOp::kMax));
  DISTILL_RETURN_IF_ERROR(Verify(other + 1, salt(1, me), "reduce-scatter", kBlock));
  DISTILL_RETURN_IF_ERROR(comm.Reduce(data, other + 1, kHuge, DType::kUInt8, ReduceOp::kMax, 1));
  if (me != 1) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(Verify(other + 1, salt(1, 0), "reduce", kBlock));
  return Verify(other + 1 + kBlock, salt(1, 1), "reduce", kHuge - kBlock);
}

// `data` holds kSpace bytes.
constexpr int64_t kSpace = 2 * kHuge + 2;
absl::Status CheckHuge(Communicator& comm, char* data) {
  const int me = comm.rank();
  char* other = data + kHuge;
  DISTILL_RETURN_IF_ERROR(CheckHugeMax(comm, data));
  DISTILL_RETURN_IF_ERROR(CheckHugeBlocks(comm, data));
  Fill(data + me * kHuge, me);
  DISTILL_RETURN_IF_ERROR(comm.AllGather(data + me * kHuge, data, kHuge, DType::kUInt8));
  for (int r = 0; r < 2; ++r) DISTILL_RETURN_IF_ERROR(Verify(data + r * kHuge, r, "all-gather"));
  if (me == 1) Fill(other, 7);
  DISTILL_RETURN_IF_ERROR(comm.Broadcast(other, kHuge, DType::kUInt8, 1));
  DISTILL_RETURN_IF_ERROR(Verify(other, 7, "broadcast"));
  if (me == 0) return comm.Send(data, kHuge, DType::kUInt8, 1);
  DISTILL_RETURN_IF_ERROR(comm.Receive(other, kHuge, DType::kUInt8, 0));
  return Verify(other, 0, "receive");
}

int64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  int64_t kibibytes = 0;
  while (file >> name >> kibibytes && std::getline(file, unit)) {
    if (name == "MemAvailable:") return kibibytes << 10;
  }
  return 0;
}

// One mapping of the ranks of all backends, one after the other: the kernel clears its pages once.
class Space {
 public:
  Space()
      : data_(mmap(nullptr, 2 * kSpace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Space() { munmap(data_, 2 * kSpace); }
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  char* of(int rank) const { return static_cast<char*>(data_) + rank * kSpace; }
  char* quarter(int rank) const { return static_cast<char*>(data_) + rank * kHuge; }

 private:
  void* data_;
};

std::string RunHuge(BackendPreference backend, const Space* space) {
  return Failures(RunRanks(2, absl::Seconds(240), [&](const World& world) -> absl::Status {
    setenv("FI_TCP_IFACE", "lo", 1);
    CommunicatorOptions options;
    options.backend = backend;
    options.timeout = absl::Seconds(100);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
    DISTILL_RETURN_IF_ERROR(
        Expect(comm->backend() == FieldText(backend), absl::StrCat("over ", std::string(comm->backend()))));
    if (space != nullptr) return CheckHuge(*comm, space->of(comm->rank()));
    DISTILL_ASSIGN_OR_RETURN(const auto memory, comm->Allocate(kHuge));
    return CheckHugeMax(*comm, memory->data());
  }));
}

// Two ranks on each of two hosts.
std::string RunHugeInTwoLevels(const Space& space) {
  return Failures(RunRanks(4, absl::Seconds(240), [&](World world) -> absl::Status {
    setenv("FI_TCP_IFACE", "lo", 1);
    world.host_id = world.host = world.rank < 2 ? "host-a" : "host-b";
    CommunicatorOptions options;
    options.timeout = absl::Seconds(100);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
    DISTILL_RETURN_IF_ERROR(
        Expect(comm->backend() == "shm+fabric", absl::StrCat("over ", std::string(comm->backend()))));
    return CheckHugeMax(*comm, space.quarter(comm->rank()));
  }));
}

// Prints why not.
bool HasMemory() {
  constexpr int64_t kNeeded = 2 * kSpace + (int64_t{2} << 30);
  const int64_t available = AvailableBytes();
  if (available >= kNeeded) return true;
  std::printf("skipped: the ranks' %lld bytes want %lld bytes of memory, %lld are available\n",
              static_cast<long long>(2 * kSpace), static_cast<long long>(kNeeded), static_cast<long long>(available));
  return false;
}

TEST_CASE("buffers of more than 2^31 bytes arrive whole", "[memory]") {
  if (!HasMemory()) return;
  CHECK(RunHuge(BackendPreference::kShm, nullptr) == "");
  const Space space;
  REQUIRE(space.ok());
  CHECK(RunHuge(BackendPreference::kShm, &space) == "");
  CHECK(RunHuge(BackendPreference::kFabric, &space) == "");
}

TEST_CASE("buffers of more than 2^31 bytes arrive whole in two levels", "[memory]") {
  if (!HasMemory()) return;
  const Space space;
  REQUIRE(space.ok());
  CHECK(RunHugeInTwoLevels(space) == "");
}

TEST_CASE("a count of more bytes than 63 bits hold is an error of every call") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  using Call = absl::Status (*)(Communicator&, int64_t);
  static float x[4];
  // A call and the count from which on its larger buffer is too long, for two ranks and float32.
  const std::vector<std::pair<Call, int64_t>> calls = {
      {[](Communicator& c, int64_t n) { return c.AllReduce(x, x, n, DType::kFloat32, ReduceOp::kSum); }, kMost / 4},
      {[](Communicator& c, int64_t n) { return c.ReduceScatter(x, x, n, DType::kFloat32, ReduceOp::kSum); }, kMost / 8},
      {[](Communicator& c, int64_t n) { return c.AllGather(x, x, n, DType::kFloat32); }, kMost / 8},
      {[](Communicator& c, int64_t n) { return c.Broadcast(x, n, DType::kFloat32, 0); }, kMost / 4},
      {[](Communicator& c, int64_t n) { return c.Reduce(x, x, n, DType::kFloat32, ReduceOp::kSum, 0); }, kMost / 4},
      {[](Communicator& c, int64_t n) { return c.AllToAll(x, x + 2, n, DType::kFloat32); }, kMost / 8},
      {[](Communicator& c, int64_t n) { return c.Send(x, n, DType::kFloat32, 1 - c.rank()); }, kMost / 4},
      {[](Communicator& c, int64_t n) { return c.Receive(x, n, DType::kFloat32, 1 - c.rank()); }, kMost / 4},
  };
  for (const auto& [call, most] : calls) {
    for (const int64_t count : {most + 1, kMost}) {
      // One rank's error may reach the other while that still makes the communicator.
      const auto make_and_call = [&](const World& world) -> absl::Status {
        CommunicatorOptions options;
        options.timeout = absl::Seconds(30);
        DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
        return call(*comm, count);
      };
      CHECK(Failures(RunRanks(2, absl::Seconds(60), [&](const World& world) {
              return testing::ExpectError(make_and_call(world), absl::StatusCode::kInvalidArgument,
                                          {absl::StrCat(count, " elements are more bytes than 63 bits count")});
            })) == "");
    }
  }
}

}  // namespace
}  // namespace distill
