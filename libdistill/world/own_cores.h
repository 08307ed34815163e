// Which processors of a host are a rank's own, so that ranks do not push one another from core to core.
//
//   std::vector<RankCores> all = ...;                     // every rank's HostId() and AllowedCores(), in order
//   const OwnCores own = DivideCores(all, rank, "");
//   if (!own.cores.empty()) BindThread(own.cores);        // threads that it starts from then on inherit it
//
// Processors are the kernel's numbers, in ascending order.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace distill {

struct RankCores {
  std::string host_id;
  std::vector<int> cores;  // that it may run on; empty: not known
};

struct OwnCores {
  std::vector<int> cores;  // to bind to; empty: the rank stays where it may run
  int threads = 0;         // that it may keep busy; 0: nothing is known of what others do on its cores
};

// What the launcher, taskset or a container left to this thread; empty where the kernel does not say.
std::vector<int> AllowedCores();

// Ranks of a host with the same cores divide them: whole physical cores, near one another (by NUMA node and by core, as
// `root`/sys tells; the numbers' order where it does not). Where there are fewer processors than ranks, they share them
// all; and so where some would have one core and others two: all that a rank does besides computing would be in the way
// of those with one, while cores of others idle. A rank whose cores no other one has stays on them, and so does one
// whose cores overlap others' in another way.
OwnCores DivideCores(const std::vector<RankCores>& ranks, int rank, const std::string& root);

// This thread, and those that it starts later. PermissionDenied or InvalidArgument: the kernel's answer.
[[nodiscard]] absl::Status BindThread(const std::vector<int>& cores);

// "0-3,8"
std::string FormatCores(const std::vector<int>& cores);
// And back; empty for what is no such list.
std::vector<int> ParseCores(const std::string& list);

}  // namespace distill
