#include "libdistill/world/cores.h"

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

World Ranks(const char* launcher, int local_size) {
  World world;
  world.launcher = launcher;
  world.local_size = local_size;
  return world;
}

}  // namespace

TEST_CASE("ranks that nobody pins divide the cores, also in a container with few of the host's") {
  for (const char* launcher : {"distillrun", "torchrun"}) {
    CHECK(ShareOfCores(Ranks(launcher, 4), {8, 64, {}}) == 2);
    CHECK(ShareOfCores(Ranks(launcher, 4), {64, 64, {}}) == 16);
    CHECK(ShareOfCores(Ranks(launcher, 4), {2, 64, {}}) == 1);
  }
  CHECK(ShareOfCores(Ranks("alone", 1), {6, 64, {}}) == 6);
}

TEST_CASE("a pinned rank has its cores for itself, but shares a socket with the others there") {
  CHECK(ShareOfCores(Ranks("mpi", 4), {4, 64, {}}) == 4);
  CHECK(ShareOfCores(Ranks("mpi", 8), {32, 64, {}}) == 8);
  CHECK(ShareOfCores(Ranks("mpi", 4), {8, 8, {}}) == 2);
  CHECK(ShareOfCores(Ranks("slurm", 4), {4, 8, {}}) == 4);
}

TEST_CASE("a quota of time is shared as the cores are") {
  CHECK(ShareOfCores(Ranks("distillrun", 2), {64, 64, 8.0}) == 4);
  CHECK(ShareOfCores(Ranks("mpi", 2), {16, 64, 8.0}) == 4);
  CHECK(ShareOfCores(Ranks("alone", 1), {64, 64, 1.5}) == 1);
  CHECK(ShareOfCores(Ranks("alone", 1), {4, 64, 100.0}) == 4);
}

TEST_CASE("the limits of version 2 of the control groups are those of the group and of all above it") {
  const TempFolder root;
  root.Write("proc/self/cgroup", "0::/job/step");
  root.Write("sys/fs/cgroup/job/cpu.max", "300000 100000");
  root.Write("sys/fs/cgroup/job/step/cpu.max", "max 100000");
  root.Write("sys/fs/cgroup/job/cpuset.cpus.effective", "0-3,8,10-11");
  const Cores cores = ReadCores(root.path());
  CHECK(cores.mine >= 1);
  CHECK(cores.host == 7);
  REQUIRE(cores.quota);
  CHECK(*cores.quota == 3);
}

TEST_CASE("a container of version 1 has its limits at the top, whatever the path says") {
  const TempFolder root;
  root.Write("proc/self/cgroup", "5:cpuset:/docker/ab\n4:cpu,cpuacct:/docker/ab\n0::/docker/ab");
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000");
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  root.Write("sys/fs/cgroup/cpuset/cpuset.cpus", "2-3");
  const Cores cores = ReadCores(root.path());
  CHECK(cores.host == 2);
  REQUIRE(cores.quota);
  CHECK(*cores.quota == 1.5);
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  CHECK_FALSE(ReadCores(root.path()).quota);
}

TEST_CASE("without control groups only the affinity counts") {
  const TempFolder root;
  const Cores cores = ReadCores(root.path());
  CHECK(cores.host >= cores.mine);
  CHECK_FALSE(cores.quota);
}

}  // namespace distill
