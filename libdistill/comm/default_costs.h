// The tables of costs of jobs that name none: chosen by what carries the messages between their hosts. Where the
// figures are from is with the code, and in docs/collectives.md ("Which algorithm"). Internal to comm/.
#pragma once

#include <string>

#include "libdistill/comm/tuning.h"

namespace distill {

// Of a communicator over the fabric, the same on all its ranks.
struct FabricTraits {
  std::string provider;             // libfabric's name for it: "efa", "tcp;ofi_rxm", "shm"
  double gigabytes_per_second = 0;  // a rank's part of what its host's cards send; 0: efa's cards do not say
  bool on_device = false;           // it carries GPUs' memory
};

struct DefaultCosts {
  std::string name;  // for the log: "efa as on P5"
  CostTable table;
};

// A pure function. A provider of which nothing is known gets tcp's.
DefaultCosts DefaultCostsOf(const FabricTraits& traits);

}  // namespace distill
