#include "absl/strings/str_cat.h"
#include "libdistill/comm/gpu.h"
#include "libdistill/comm/setup.h"

namespace distill {

bool HasNccl() { return false; }

absl::StatusOr<std::string> GpuAddress(int device_index) {
  return device_index < 0 ? std::string() : absl::StrCat("GPU ", device_index);
}

absl::Status CheckGpuAge(int) { return absl::OkStatus(); }

MadeCommunicator CreateNcclCommunicator(Setup) {
  return absl::InvalidArgumentError(
      "comm_backend nccl needs a libdistill that was built with CUDA (an nvcc at configure time); this one is for "
      "CPUs");
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> DeviceMemory::Open(int, absl::Duration) {
  return absl::UnimplementedError("this build of libdistill has no CUDA: give buffers in host memory");
}

}  // namespace distill
