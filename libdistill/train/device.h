// Which device a run computes on, and how many threads it may use: decided once.
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "libdistill/world/world.h"

namespace distill {

// auto: this rank's GPU where there is one, else the CPU. InvalidArgument: another word, or cuda on a machine without.
[[nodiscard]] absl::StatusOr<c10::Device> ChooseDevice(const std::string& device, const World& world);

// From now on this process computes the same bits whenever it does the same on the same kind of machine with the same
// number of threads: LibTorch's and cuDNN's deterministic algorithms, a fixed workspace for cuBLAS. An operation that
// has none throws. Before the first operation on a GPU.
void UseDeterministicAlgorithms();

// One thread pool a rank, of its share of the cores (world/cores.h); OMP_NUM_THREADS overrides it.
void UseShareOfCores(const World& world);

}  // namespace distill
