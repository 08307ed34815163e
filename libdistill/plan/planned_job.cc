#include "libdistill/plan/planned_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::StatusOr<PlannedJob> JobOf(const PlanFlags& flags, const World& world) {
  PlannedJob job{world.world_size, world.local_size};
  if (flags.instance.empty()) {
    if (flags.world_size) job.world_size = job.ranks_per_host = static_cast<int>(*flags.world_size);
    if (flags.ranks_per_host) job.ranks_per_host = static_cast<int>(*flags.ranks_per_host);
    return job;
  }
  DISTILL_ASSIGN_OR_RETURN(const auto instances, ReadInstances(flags.instances));
  DISTILL_ASSIGN_OR_RETURN(job.instance, FindInstance(instances, flags.instance));
  const int64_t gpus = job.instance->gpus;
  job.world_size = static_cast<int>(flags.world_size.value_or(gpus));
  job.ranks_per_host = static_cast<int>(flags.ranks_per_host.value_or(std::min<int64_t>(gpus, job.world_size)));
  if (job.ranks_per_host <= gpus) return job;
  return absl::InvalidArgumentError(absl::StrCat("ranks_per_host ", job.ranks_per_host, ": a ", job.instance->name,
                                                 " has ", gpus, " GPU(s), and a rank takes one"));
}

}  // namespace distill
