#include "bench/machine.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <chrono>

namespace distill {

double MatrixRate(torch::Dtype dtype, torch::Device device) {
  const int64_t size = device.is_cpu() ? 4096 : 8192;
  const torch::Tensor a = torch::randn({size, size}).to(device, dtype);
  const torch::Tensor b = torch::randn({size, size}).to(device, dtype);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    Synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    const torch::Tensor product = torch::mm(a, b);
    Synchronize(device);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2.0 * static_cast<double>(size * size * size) / seconds);
  }
  return best;
}

void Synchronize(torch::Device device) {
  if (!device.is_cpu())
    at::accelerator::synchronizeDevice(device.has_index() ? device.index() : at::accelerator::getDeviceIndex());
}

}  // namespace distill
