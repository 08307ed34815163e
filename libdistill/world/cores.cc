#include "libdistill/world/cores.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/world/control_groups.h"
#include "libdistill/world/own_cores.h"

namespace distill {
namespace {

// Version 2: "max 100000" or "150000 100000". Version 1: -1 or 150000, and the period in a file of its own.
std::optional<double> QuotaOf(const std::string& folder) {
  const std::vector<std::string> limit = absl::StrSplit(FirstLine(folder + "/cpu.max"), ' ');
  const bool is_v2 = limit.size() == 2;
  double time = 0;
  double period = 0;
  if (!absl::SimpleAtod(is_v2 ? limit[0] : FirstLine(folder + "/cpu.cfs_quota_us"), &time) ||
      !absl::SimpleAtod(is_v2 ? limit[1] : FirstLine(folder + "/cpu.cfs_period_us"), &period) || time <= 0 ||
      period <= 0) {
    return std::nullopt;
  }
  return time / period;
}

}  // namespace

Cores ReadCores(const std::string& root) {
  Cores cores;
  const int allowed = static_cast<int>(AllowedCores().size());
  cores.host = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  cores.mine = allowed > 0 ? allowed : cores.host;
  for (const std::string& folder : GroupFolders(root, "cpuset")) {
    int count = 0;
    for (const char* name : {"cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"}) {
      if (count == 0) count = static_cast<int>(ParseCores(FirstLine(absl::StrCat(folder, "/", name))).size());
    }
    if (count == 0) continue;
    cores.host = count;
    break;
  }
  for (const std::string& folder : GroupFolders(root, "cpu")) {
    const std::optional<double> quota = QuotaOf(folder);
    if (quota) cores.quota = std::min(*quota, cores.quota.value_or(*quota));
  }
  return cores;
}

int ShareOfCores(const World& world, const Cores& cores) {
  const int ranks = std::max(1, world.local_size);
  int share = cores.mine / ranks;
  if (world.launcher == "mpi") share = std::min(cores.mine, cores.host / ranks);
  if (world.launcher == "slurm") share = cores.mine;
  if (cores.quota) share = std::min(share, static_cast<int>(*cores.quota / ranks));
  return std::max(1, share);
}

}  // namespace distill
