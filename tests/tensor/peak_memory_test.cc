#include "libdistill/tensor/peak_memory.h"

#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

TEST_CASE("a device is asked for its memory with its index or without one") {
  constexpr int64_t kBytes = int64_t{32} << 20;
  for (const torch::Device& device : TestDevices()) {
    INFO(device);
    const torch::Device same(device.type());
    ResetPeakMemory(same);
    const int64_t before = MemoryInUseBytes(same);
    const torch::Tensor block = torch::ones({kBytes}, torch::TensorOptions(torch::kUInt8).device(device));
    CHECK(PeakMemoryBytes(same) >= before + kBytes);
    CHECK(DeviceMemoryBytes(same) == DeviceMemoryBytes(device));
    CHECK((DeviceMemoryBytes(same) > 0) == device.is_cuda());
    if (device.is_cuda()) CHECK(MemoryInUseBytes(same) == MemoryInUseBytes(device));
  }
}

}  // namespace
}  // namespace distill
