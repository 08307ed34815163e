// Where the threads of real ranks may run, as the kernel says it.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/comm/async.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/run/device.h"
#include "libdistill/tensor/parallel.h"
#include "libdistill/world/own_cores.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;

constexpr auto kLimit = absl::Seconds(60);

// By thread: what /proc says of it.
std::map<std::string, std::string> CoresByThread() {
  std::map<std::string, std::string> cores;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);) {
      absl::string_view rest = line;
      if (absl::ConsumePrefix(&rest, "Cpus_allowed_list:")) {
        cores[entry.path().filename()] = std::string(absl::StripAsciiWhitespace(rest));
      }
    }
  }
  return cores;
}

// Joins, divides the cores, and expects `main` of this thread and of every thread that starts later, `threads` in the
// pool. Threads that ran before stay on `before`.
absl::Status Check(const World& world, bool binds, const std::string& before, const std::string& own, int threads,
                   const std::string& gpu = "", const std::string& root = "") {
  DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
  std::map<std::string, std::string> earlier = CoresByThread();
  DISTILL_RETURN_IF_ERROR(UseOwnCores(*comm, world, binds, gpu, root));
  DISTILL_RETURN_IF_ERROR(
      Expect(at::get_num_threads() == threads, absl::StrCat(at::get_num_threads(), " threads, not ", threads)));
  DISTILL_ASSIGN_OR_RETURN(const auto calls, AsyncCalls::Start(comm.get()));
  ParallelFor(threads, 1, [](int64_t, int64_t) {});
  DISTILL_RETURN_IF_ERROR(calls->Run([](Communicator& c) { return c.Barrier(); }).Wait());
  const std::string main_thread = absl::StrCat(getpid());
  earlier.erase(main_thread);
  for (const auto& [thread, cores] : CoresByThread()) {
    const std::string& expected = earlier.count(thread) > 0 ? before : own;
    DISTILL_RETURN_IF_ERROR(Expect(cores == expected, absl::StrCat("thread ", thread == main_thread ? "main" : thread,
                                                                   " is on ", cores, ", not on ", expected)));
  }
  return absl::OkStatus();
}

// Whether this machine has cores to divide; says so where it has not.
bool HasTwoCores(const std::vector<int>& cores) {
  if (cores.size() >= 2) return true;
  std::printf("skipped: this process has one core, and two ranks cannot divide it\n");
  return false;
}

TEST_CASE("two ranks each have half of the cores for all that they start", "[two_cores]") {
  const std::vector<int> all = AllowedCores();
  if (!HasTwoCores(all)) return;
  CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) {
          unsetenv("OMP_NUM_THREADS");
          const std::vector<RankCores> ranks(2, RankCores{world.host_id, all});
          const OwnCores own = DivideCores(ranks, world.rank, "");
          return Check(world, true, FormatCores(all), FormatCores(own.cores), own.threads);
        })) == "");
}

TEST_CASE("what taskset or a launcher gave a rank is its own, and all of it", "[two_cores]") {
  const std::vector<int> all = AllowedCores();
  if (!HasTwoCores(all)) return;
  CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
          unsetenv("OMP_NUM_THREADS");
          const std::vector<int> given =
              world.rank == 0 ? std::vector<int>{all[0]} : std::vector<int>(all.begin() + 1, all.end());
          DISTILL_RETURN_IF_ERROR(BindThread(given));
          return Check(world, true, FormatCores(given), FormatCores(given), static_cast<int>(given.size()));
        })) == "");
}

// By what a folder says in /sys's place: the first rank's GPU is near the last core, and the other way round.
TEST_CASE("ranks with GPUs are on the cores near those, and a launcher's choice is only narrowed") {
  const std::vector<int> all = AllowedCores();
  if (!HasTwoCores(all)) return;
  const testing::TempFolder root;
  const std::vector<std::string> near = {FormatCores({all.back()}), FormatCores({all.front()})};
  for (size_t gpu = 0; gpu < 2; ++gpu) {
    const std::string folder = absl::StrCat("sys/bus/pci/devices/0000:0", gpu, ":00.0/");
    root.Write(folder + "local_cpulist", near[gpu]);
    root.Write(folder + "numa_node", absl::StrCat(1 - gpu));
  }
  const auto run = [&](int ranks, const std::function<std::vector<int>(int rank)>& given, bool narrows) {
    return Failures(RunRanks(ranks, kLimit, [&](const World& world) -> absl::Status {
      unsetenv("OMP_NUM_THREADS");
      const std::vector<int> before = given(world.rank);
      DISTILL_RETURN_IF_ERROR(BindThread(before));
      return Check(world, true, FormatCores(before),
                   narrows ? near[static_cast<size_t>(world.rank)] : FormatCores(before), 1,
                   absl::StrCat("0000:0", world.rank, ":00.0"), root.path());
    }));
  };
  CHECK(run(
            2, [&](int) { return all; }, true) == "");
  CHECK(run(
            1, [&](int) { return all; }, true) == "");  // also the only rank
  // Each was put on the core that is far from its GPU.
  CHECK(run(
            2, [&](int rank) { return std::vector<int>{rank == 0 ? all.front() : all.back()}; }, false) == "");
}

TEST_CASE("more ranks than cores are not bound") {
  const std::vector<int> all = AllowedCores();
  CHECK(Failures(RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
          unsetenv("OMP_NUM_THREADS");
          const std::vector<int> given(all.begin(), all.begin() + std::min<int64_t>(2, all.size()));
          DISTILL_RETURN_IF_ERROR(BindThread(given));
          return Check(world, true, FormatCores(given), FormatCores(given), 1);
        })) == "");
}

TEST_CASE("pin_threads: false and the user's own settings leave threads where they are") {
  const std::string all = FormatCores(AllowedCores());
  for (const bool by_option : {true, false}) {
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) {
            at::set_num_threads(1);
            if (!by_option) setenv("OMP_PROC_BIND", "false", 1);
            return Check(world, !by_option, all, all, 1);
          })) == "");
  }
}

TEST_CASE("OMP_NUM_THREADS is the pool's size also where cores are divided", "[two_cores]") {
  const std::vector<int> all = AllowedCores();
  if (!HasTwoCores(all)) return;
  CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) {
          setenv("OMP_NUM_THREADS", "3", 1);
          at::set_num_threads(3);
          const std::vector<RankCores> ranks(2, RankCores{world.host_id, all});
          return Check(world, true, FormatCores(all), FormatCores(DivideCores(ranks, world.rank, "").cores), 3);
        })) == "");
}

}  // namespace
}  // namespace distill
