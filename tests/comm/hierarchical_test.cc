// Collectives in two levels, between ranks of this host that play several hosts: the grid, random schedules, splits,
// and what an error says.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/comm/host_layout.h"
#include "libdistill/comm/tuning_file.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/collectives_grid.h"
#include "tests/comm/efa_like_ranks.h"
#include "tests/comm/load_fabric.h"
#include "tests/comm/random_schedule.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;

// The host of every rank, a letter each.
using Places = std::string;

World OnHost(World world, const Places& places) {
  world.host = absl::StrCat("host-", places.substr(static_cast<size_t>(world.rank), 1));
  world.host_id = world.host;
  return world;
}

// Runs the body on every rank, over the backend that these places give.
std::string RunOn(const Places& places, const std::function<absl::Status(Communicator&)>& body) {
  const int ranks = static_cast<int>(places.size());
  testing::LoadFabric();
  return Failures(RunRanks(ranks, absl::Seconds(100), [&](const World& world) -> absl::Status {
    setenv("FI_TCP_IFACE", "lo", 1);
    CommunicatorOptions options;
    options.timeout = absl::Seconds(60);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(OnHost(world, places), options));
    DISTILL_RETURN_IF_ERROR(
        Expect(comm->backend() == "shm+fabric", absl::StrCat("over ", std::string(comm->backend()))));
    return body(*comm);
  }));
}

TEST_CASE("ranks are laid out by hosts, whatever their order") {
  const HostLayout even({"A", "B", "A", "B"});
  CHECK(even.Describe() == "2 hosts x 2 ranks");
  CHECK(even.RanksOn(1) == std::vector<int>{1, 3});
  CHECK(even.RanksAt(1) == std::vector<int>{2, 3});
  CHECK(even.HostOf(2) == 0);
  CHECK(even.LocalRankOf(3) == 1);
  const HostLayout uneven({"x", "y", "y", "x", "y", "z"});
  CHECK(uneven.Describe() == "3 hosts of 2, 3 and 1 ranks");
  CHECK(uneven.fewest() == 1);
  CHECK(uneven.most() == 3);
  CHECK(uneven.RanksAt(0) == std::vector<int>{0, 1, 5});
  CHECK(uneven.RanksAt(2) == std::vector<int>{4});
}

TEST_CASE("memory for calls in two levels may go before its communicator and stay after it") {
  const Places places = GENERATE(as<Places>(), "AABB", "ABB");
  const int ranks = static_cast<int>(places.size());
  const auto outcomes = RunRanks(ranks, absl::Seconds(100), [&](const World& world) -> absl::Status {
    setenv("FI_TCP_IFACE", "lo", 1);
    DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(OnHost(world, places), CommunicatorOptions()));
    constexpr int64_t kCount = 1 << 20;  // several segments
    DISTILL_ASSIGN_OR_RETURN(const auto kept, comm->Allocate(kCount * 4));
    for (int round = 0; round < 3; ++round) {
      DISTILL_ASSIGN_OR_RETURN(const auto memory, comm->Allocate(kCount * 4));
      const auto* ones = reinterpret_cast<float*>(kept->data());
      auto* sums = reinterpret_cast<float*>(memory->data());
      std::fill_n(reinterpret_cast<float*>(kept->data()), kCount, 1.0f);
      DISTILL_RETURN_IF_ERROR(comm->AllReduce(ones, sums, kCount, DType::kFloat32, ReduceOp::kSum));
      const bool right = std::all_of(sums, sums + kCount, [&](float sum) { return sum == static_cast<float>(ranks); });
      DISTILL_RETURN_IF_ERROR(Expect(right, "a wrong sum"));
      DISTILL_RETURN_IF_ERROR(comm->Broadcast(sums, kCount, DType::kFloat32, ranks - 1));
    }
    comm.reset();
    return Expect(*reinterpret_cast<float*>(kept->data()) == 1, "it went with its communicator");
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("every collective is exact in two levels, whatever the layout") {
  const Places places = GENERATE(as<Places>(), "AABB", "ABAB", "AAAB", "ABB", "AABBC", "AAAABBBB");
  CAPTURE(places);
  // The whole grid on the layouts of four, a smaller one where ranks far outnumber cores.
  testing::GridOptions options;
  if (places.size() > 4) options = {.counts = {1, 1009}, .dtypes = {DType::kBFloat16, DType::kInt64}};
  CHECK(RunOn(places, [&](Communicator& comm) { return testing::CheckCollectives(comm, options); }) == "");
}

TEST_CASE("calls of many segments are exact in two levels") {
  for (const Places places : {"AABB", "ABAAB", "ABB"}) {
    CAPTURE(places);
    CHECK(RunOn(places, [](Communicator& comm) { return testing::CheckLargeCollectives(comm, 9 << 20); }) == "");
  }
}

TEST_CASE("registered memory and mixtures of it give the same in two levels") {
  for (const testing::BufferKind kind : {testing::BufferKind::kRegistered, testing::BufferKind::kMixed}) {
    const auto grid = [kind](Communicator& comm) {
      return testing::CheckCollectives(
          comm, {.buffers = kind, .counts = {0, 1, 1009, 40009}, .dtypes = {DType::kFloat32, DType::kFloat16}});
    };
    for (const Places places : {"AABB", "BAB"}) CHECK(RunOn(places, grid) == "");
    CHECK(RunOn("ABAB", [kind](Communicator& comm) { return testing::CheckLargeCollectives(comm, 9 << 20, kind); }) ==
          "");
  }
}

// Memory slower than the network, on paper: what is longer than some KiB goes flat.
void UseSlowMemoryTable(const std::string& path) {
  CostTable table;
  table.shared_memory.gigabytes_per_second = 0.5;
  std::ofstream(path) << TuningFileText(table);
  setenv("DISTILL_COMM_TUNING_FILE", path.c_str(), 1);
}

TEST_CASE("calls for which the table has less time without levels go flat, and are exact beside those in two levels") {
  const testing::TempFolder folder;
  const std::string path = folder.Write("tuning.yaml", "");
  const auto run = [&](const Places& places, const std::function<absl::Status(Communicator&)>& body) {
    UseSlowMemoryTable(path);
    const std::string failures = RunOn(places, body);
    unsetenv("DISTILL_COMM_TUNING_FILE");
    return failures;
  };
  CHECK(run("AABB", [](Communicator& comm) -> absl::Status {
          // Host by host 1 + 2^-24, which is rounded to 1, meets 2^-23; a ring's first block adds 2^-24 each time.
          std::vector<float> data(1 << 20, comm.rank() == 0 ? 1.0f : 0x1p-24f);
          std::vector<float> few = {data[0]};
          DISTILL_RETURN_IF_ERROR(comm.AllReduce(data.data(), data.data(), 1 << 20, DType::kFloat32, ReduceOp::kSum));
          DISTILL_RETURN_IF_ERROR(comm.AllReduce(few.data(), few.data(), 1, DType::kFloat32, ReduceOp::kSum));
          DISTILL_RETURN_IF_ERROR(Expect(data[0] == 1.0f, "a long call went in two levels"));
          return Expect(few[0] == 1.0f + 0x1p-23f, "a short call went flat");
        }) == "");
  for (const testing::BufferKind kind : {testing::BufferKind::kPlain, testing::BufferKind::kMixed}) {
    CHECK(run("ABA", [kind](Communicator& comm) {
            return testing::CheckAllReduces(
                comm, {.buffers = kind, .counts = {1, 1009, 200'003}, .dtypes = {DType::kFloat32, DType::kBFloat16}});
          }) == "");
  }
}

TEST_CASE("all ranks end with the same bits in two levels, and the same call gives them again") {
  for (const Places places : {"AABB", "ABBA", "AAB"}) CHECK(RunOn(places, testing::CheckSameBits) == "");
}

TEST_CASE("random schedules of calls in two levels and over their splits give what one process computes") {
  for (const Places places : {"AABB", "ABAAB"}) {
    CAPTURE(places);
    CHECK(RunOn(places, [](Communicator& comm) { return testing::RunRandomSchedule(comm, 7, 120); }) == "");
  }
}

TEST_CASE("a part of two levels has the levels that its ranks need") {
  CHECK(RunOn("AABBB", [](Communicator& comm) -> absl::Status {
          const auto expect = [&](int color, const std::string& backend) -> absl::Status {
            DISTILL_ASSIGN_OR_RETURN(const auto part, comm.Split(color, 0));
            DISTILL_RETURN_IF_ERROR(Expect(part->backend() == backend, absl::StrCat("over ", part->backend())));
            return testing::CheckCollectives(*part, {.counts = {3, 1009}, .dtypes = {DType::kFloat32}});
          };
          const int r = comm.rank();
          DISTILL_RETURN_IF_ERROR(expect(r < 2 ? 0 : 1, "shm"));
          DISTILL_RETURN_IF_ERROR(expect(r % 3, r == 2 ? "alone" : "fabric"));
          return expect(r == 1 ? 1 : 0, r == 1 ? "alone" : "shm+fabric");
        }) == "");
}

TEST_CASE("ten thousand small calls in a row stay in step in two levels") {
  CHECK(RunOn("AAB", [](Communicator& comm) -> absl::Status {
          for (int i = 0; i < testing::CallsInARow(5000); ++i) {
            int64_t value = i * (comm.rank() + 1);
            DISTILL_RETURN_IF_ERROR(comm.AllReduce(&value, &value, 1, DType::kInt64, ReduceOp::kSum));
            DISTILL_RETURN_IF_ERROR(Expect(value == 6 * i, absl::StrCat("round ", i)));
            DISTILL_RETURN_IF_ERROR(comm.Barrier());
          }
          return absl::OkStatus();
        }) == "");
}

TEST_CASE("an average is divided once over both levels") {
  CHECK(RunOn("AAB", [](Communicator& comm) -> absl::Status {
          // 2 + 2 + 1 = 5 over 3 ranks is 1; (2 + 2) / 2 first, or halves of integers, would give another number.
          std::vector<int32_t> data(70001, comm.rank() < 2 ? 2 : 1);
          DISTILL_RETURN_IF_ERROR(comm.AllReduce(data.data(), data.data(), 70001, DType::kInt32, ReduceOp::kAverage));
          for (const int32_t x : data) DISTILL_RETURN_IF_ERROR(Expect(x == 1, absl::StrCat("got ", x)));
          return absl::OkStatus();
        }) == "");
}

}  // namespace
}  // namespace distill
