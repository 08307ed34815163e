// The job that a plan is for: as its flags name it, or as it was started.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "libdistill/plan/instances.h"
#include "libdistill/plan/plan_flags.h"
#include "libdistill/world/world.h"

namespace distill {

struct PlannedJob {
  int world_size = 1, ranks_per_host = 1;
  std::optional<Instance> instance = {};
};
// By `flags`, or as `world` was started. InvalidArgument: no such instance, or more ranks on a host than it has GPUs.
[[nodiscard]] absl::StatusOr<PlannedJob> JobOf(const PlanFlags& flags, const World& world);

}  // namespace distill
