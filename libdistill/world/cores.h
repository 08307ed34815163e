// How many threads a rank may keep busy, so that the ranks of a host do not fight over its cores.
//
//   at::set_num_threads(ShareOfCores(world, ReadCores("")));
#pragma once

#include <optional>
#include <string>

#include "libdistill/world/world.h"

namespace distill {

struct Cores {
  int mine = 1;                 // that this process may run on
  int host = 1;                 // of the host, or of the container that the ranks share (its cpuset)
  std::optional<double> quota;  // cores' worth of time that the container may use, where that is limited
};

// What the kernel says of this process. `root` is a folder in front of /proc and /sys, for tests. Never fails: what
// cannot be read does not limit.
Cores ReadCores(const std::string& root);

// At least 1. Of distillrun's and torchrun's ranks, which nobody pins: an equal part of the cores that they share.
// mpirun and srun pin theirs as a rule: what this rank may run on is its own then, but under mpirun no more than an
// equal part of the host, since a rank that it pins to a socket, or not at all, is not alone there. Never above its
// part of the quota.
int ShareOfCores(const World& world, const Cores& cores);

}  // namespace distill
