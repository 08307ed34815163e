#include "libdistill/world/available_memory.h"

#include <unistd.h>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

void PutHost(const TempFolder& root, const std::string& kibibytes) {
  root.Write("proc/meminfo",
             "MemTotal:        8000 kB\nMemFree:          100 kB\nMemAvailable:    " + kibibytes + " kB");
}

}  // namespace

TEST_CASE("without control groups the host's memory is what there is") {
  const TempFolder root;
  CHECK(ReadAvailableMemory(root.path()).bytes == ~uint64_t{0});  // not known: nothing is refused
  PutHost(root, "5000");
  CHECK(ReadAvailableMemory(root.path()).bytes == 5000 * 1024);
  CHECK(ReadAvailableMemory(root.path()).limited_by == "this host");
}

TEST_CASE("of version 2 the tightest limit of the group and all above it counts, less what is used and is no file") {
  const TempFolder root;
  PutHost(root, "5000");
  root.Write("proc/self/cgroup", "0::/job/step");
  root.Write("sys/fs/cgroup/job/memory.max", "1000000");
  root.Write("sys/fs/cgroup/job/memory.current", "700000");
  root.Write("sys/fs/cgroup/job/memory.stat", "anon 500000\nfile 200000\ninactive_file 100000\nactive_file 20000");
  root.Write("sys/fs/cgroup/job/step/memory.max", "max");
  root.Write("sys/fs/cgroup/job/step/memory.current", "600000");
  CHECK(ReadAvailableMemory(root.path()).bytes == 420000);
  CHECK_THAT(ReadAvailableMemory(root.path()).limited_by, Catch::EndsWith("/sys/fs/cgroup/job"));
  root.Write("sys/fs/cgroup/job/step/memory.max", "650000");
  CHECK(ReadAvailableMemory(root.path()).bytes == 50000);
  root.Write("sys/fs/cgroup/job/step/memory.current", "660000");  // above a limit that was lowered
  CHECK(ReadAvailableMemory(root.path()).bytes == 0);
  CHECK_THAT(ReadAvailableMemory(root.path()).limited_by, Catch::EndsWith("/sys/fs/cgroup/job/step"));
  PutHost(root, "0");
  root.Write("sys/fs/cgroup/job/step/memory.max", "9000000000");
  CHECK(ReadAvailableMemory(root.path()).limited_by == "this host");
}

TEST_CASE("every limit is named, with what is left of it, and known again under another path") {
  const TempFolder root;
  PutHost(root, "5000");
  root.Write("proc/self/cgroup", "0::/job/step");
  for (const char* group : {"sys/fs/cgroup/job", "sys/fs/cgroup/job/step"}) {
    root.Write(std::string(group) + "/memory.max", "1000000");
    root.Write(std::string(group) + "/memory.current", "700000");
  }
  const std::vector<MemoryLimit> limits = ReadMemoryLimits(root.path());
  REQUIRE(limits.size() == 3);
  CHECK(limits[0].name == "this host");
  CHECK(limits[0].left_bytes == 5000 * 1024);
  CHECK_THAT(limits[1].name, Catch::EndsWith("/sys/fs/cgroup/job/step"));
  CHECK(limits[1].left_bytes == 300000);
  CHECK(limits[1].id != limits[2].id);
  const TempFolder other;  // as a container sees it, whose own group is the top
  REQUIRE(symlink((root.path() + "/sys").c_str(), (other.path() + "/sys").c_str()) == 0);
  other.Write("proc/self/cgroup", "0::/job");
  const std::vector<MemoryLimit> seen = ReadMemoryLimits(other.path());
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].name != limits[2].name);
  CHECK(seen[0].id == limits[2].id);
  other.Write("proc/sys/kernel/random/boot_id", "another kernel");  // may number its groups alike
  CHECK(ReadMemoryLimits(other.path())[0].id != limits[2].id);
}

TEST_CASE("of version 1 a container's limit is at the top, and none is a number that is never reached") {
  const TempFolder root;
  PutHost(root, "5000");
  root.Write("proc/self/cgroup", "4:memory:/docker/ab\n0::/docker/ab");
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  root.Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "900000");
  CHECK(ReadAvailableMemory(root.path()).bytes == 5000 * 1024);
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000");
  root.Write("sys/fs/cgroup/memory/memory.stat",
             "inactive_file 1\nactive_file 1\ntotal_inactive_file 300000\ntotal_active_file 0");
  CHECK(ReadAvailableMemory(root.path()).bytes == 400000);
}

}  // namespace distill
