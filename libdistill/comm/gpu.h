// What CUDA says of the GPUs of this process that LibTorch's interfaces do not. Asking starts nothing on them.
//
//   DISTILL_RETURN_IF_ERROR(CheckGpuAge(0));
//   const PciPlace place = FindPciPlace(GpuAddress(0).value_or(""), "");  // of world/own_cores.h
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace distill {

// The PCI address ("0000:3B:00.0"), which tells a host's GPUs apart in every process, whatever CUDA_VISIBLE_DEVICES
// makes of their numbers; "GPU 0" in a build without CUDA. Empty for -1, no GPU. Internal: CUDA's error.
[[nodiscard]] absl::StatusOr<std::string> GpuAddress(int device_index);

// InvalidArgument: the GPU is older than what this build, its CUDA and LibTorch have code for, as a V100 is to CUDA 13.
[[nodiscard]] absl::Status CheckGpuAge(int device_index);

}  // namespace distill
