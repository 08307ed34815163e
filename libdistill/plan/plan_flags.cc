#include "libdistill/plan/plan_flags.h"

namespace distill {

absl::Status CheckPlanFlags(const PlanFlags& flags) {
  if (flags.plan) return absl::OkStatus();
  if (flags.world_size || flags.ranks_per_host) {
    return absl::InvalidArgumentError(
        "--world_size and --ranks_per_host go with --plan; a run has the ranks that its launcher starts");
  }
  if (flags.instance.empty() && flags.instances.empty() && !flags.efficiency && !flags.seconds_per_step) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("--instance, --instances, --efficiency and --seconds_per_step go with --plan");
}

}  // namespace distill
