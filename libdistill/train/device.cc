#include "libdistill/train/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/world/cores.h"

namespace distill {

absl::StatusOr<c10::Device> ChooseDevice(const std::string& device, const World& world) {
  if (device != "auto" && device != "cpu" && device != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("device: '", device, "' is none of auto, cpu, cuda"));
  }
  if (device == "cpu") return c10::Device(c10::kCPU);
  const int64_t gpus = torch::cuda::is_available() ? static_cast<int64_t>(torch::cuda::device_count()) : 0;
  if (gpus == 0) {
    if (device == "auto") return c10::Device(c10::kCPU);
    return absl::InvalidArgumentError(
        absl::StrCat("device: cuda, but no GPU is usable on ", world.host, " (use device: cpu, or check nvidia-smi)"));
  }
  if (world.local_size > gpus && device == "auto") {
    LogWarning(absl::StrCat("device: auto takes the CPU: ", world.local_size, " ranks on ", world.host, ", which has ",
                            gpus, " GPUs (start one rank a GPU)"));
    return c10::Device(c10::kCPU);
  }
  if (world.local_size > gpus) {
    return absl::InvalidArgumentError(absl::StrCat("device: ", world.local_size, " ranks on ", world.host,
                                                   ", which has ", gpus, " GPUs: start one rank a GPU"));
  }
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(world.local_rank));
}

void UseDeterministicAlgorithms() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // It would write every new tensor once more, to show reads of what nobody wrote.
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // of the sizes that cuBLAS's documentation names
}

void UseShareOfCores(const World& world) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;  // the user's word counts
  at::set_num_threads(ShareOfCores(world, ReadCores("")));
}

}  // namespace distill
