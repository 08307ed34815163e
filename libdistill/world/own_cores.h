// Which processors of a host are a rank's own, so that ranks do not push one another from core to core.
//
//   std::vector<RankCores> all = ...;                     // every rank's HostId(), AllowedCores() and CoresNearPci()
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
  std::vector<int> cores;      // that it may run on; empty: not known
  std::vector<int> near = {};  // those near its GPU; empty: it has none, or that is not known

  // Those of `cores` that are near: where there is none of them, all. Never more than `cores`.
  std::vector<int> Wanted() const;
  bool HasNear() const;  // whether some of `cores` are near
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
// whose cores overlap others' in another way. A rank with a GPU wants those near it of the cores that it may run on:
// ranks that want the same ones divide them, and one that cannot divide stays on all that it wants.
OwnCores DivideCores(const std::vector<RankCores>& ranks, int rank, const std::string& root);

// Where a device on the PCI bus is, by `root`/sys.
struct PciPlace {
  int node = -1;           // its NUMA node; -1: not known, as in most virtual machines
  std::vector<int> cores;  // near it; empty: not known
};
// `address`: as "0000:3B:00.0", with letters of either case and more digits of the domain, as CUDA and libfabric have
// them. Never fails: an address that is none, or of no device here, has no known place.
PciPlace FindPciPlace(const std::string& address, const std::string& root);

// This thread, and those that it starts later. PermissionDenied or InvalidArgument: the kernel's answer.
[[nodiscard]] absl::Status BindThread(const std::vector<int>& cores);

// "0-3,8"
std::string FormatCores(const std::vector<int>& cores);
// And back; empty for what is no such list.
std::vector<int> ParseCores(const std::string& list);

}  // namespace distill
