// What --plan is told of the job that it plans, on the command line alone; every recipe's program has these flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "libdistill/core/describe.h"

namespace distill {

struct PlanFlags {
  bool plan = false;
  std::optional<int64_t> world_size = {}, ranks_per_host = {};
  std::string instance = {};   // of those in `instances`; empty: any
  std::string instances = {};  // a file; empty: bench/instances.yaml, as it was when the program was built
  std::optional<double> efficiency = {};
  std::optional<double> seconds_per_step = {};
};

template <class V>
void Describe(V& v, PlanFlags& o) {
  constexpr FieldLimits kCount = Within(1, 1 << 20);
  v.Field("plan", o.plan, "print the memory that a rank and a host need, by kind, and time and price of the run");
  v.Field("world_size", o.world_size, kCount,
          "ranks to --plan for; otherwise as many as --instance has GPUs, or as were started");
  v.Field("ranks_per_host", o.ranks_per_host, kCount,
          "of them on each host; otherwise all on one, or as --instance has");
  v.Field("instance", o.instance, "machine to --plan for, by its name: g5.2xlarge");
  v.Field("instances", o.instances, "file of machines and prices in the form of bench/instances.yaml; empty: that one")
      .Path();
  v.Field("efficiency", o.efficiency, Within(0.001, 1),
          "share of a GPU's peak that training reaches; otherwise 0.35, of recurrent networks 0.06");
  v.Field("seconds_per_step", o.seconds_per_step, AtLeast(1e-6), "time of a step as measured, for hours and price");
}

// InvalidArgument: flags that go with --plan, without it.
[[nodiscard]] absl::Status CheckPlanFlags(const PlanFlags& flags);

}  // namespace distill
