// Which device a run computes on, and how many threads it may use: decided once.
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "libdistill/world/world.h"

namespace distill {

// auto: this rank's GPU where there is one, else the CPU. InvalidArgument: another word, or cuda on a machine without.
[[nodiscard]] absl::StatusOr<c10::Device> ChooseDevice(const std::string& device, const World& world);

// One thread pool a rank, of its share of the cores (world/cores.h); OMP_NUM_THREADS overrides it.
void UseShareOfCores(const World& world);

}  // namespace distill
