// A memory plan as text for people: a table of kinds, a host's sum, whether it fits, and what would make it smaller.
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/plan/memory_plan.h"

namespace distill {

struct MemoryAtHand {
  int64_t bytes = 0;  // of a host, or of one GPU; 0: not known
  std::string where;  // "this host"
};

// Where it does not fit: also what a rank would need with other settings, each planned in the same way.
std::string DescribePlan(const MemoryPlanTask& task, const MemoryPlan& plan, const MemoryAtHand& at_hand);

}  // namespace distill
