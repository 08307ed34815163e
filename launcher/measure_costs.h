// What messages, bytes and additions cost between the ranks of a job.
#pragma once

#include "absl/status/statusor.h"
#include "libdistill/comm/tuning.h"
#include "libdistill/world/world.h"

namespace distill {

struct MeasuredCosts {
  CostTable table;  // the same on every rank
  CommLayout layout;
};

// Every rank must call it; takes a few seconds. Pairs of ranks measure at the same time, one of each host where there
// are several; of several pairs the slowest counts. On one host "network" is the fabric on that host. Where no host has
// two ranks, shared memory has the default figures. InvalidArgument: a job of one rank.
[[nodiscard]] absl::StatusOr<MeasuredCosts> MeasureCosts(const World& world);

}  // namespace distill
