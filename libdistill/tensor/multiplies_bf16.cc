#include "libdistill/tensor/multiplies_bf16.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceGuard.h>

#include "libdistill/core/vectors.h"

namespace distill {

bool MultipliesBf16(c10::Device device) {
  if (device.is_cpu()) return CpuMultipliesBf16();
  const c10::DeviceGuard guard(device);
  return at::detail::getCUDAHooks().supportsBFloat16ConvolutionWithCuDNNv8();  // asks for compute capability 8.0
}

}  // namespace distill
