#include "libdistill/tensor/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace distill {
namespace {

at::Generator GeneratorOf(c10::Device device) {
  return device.is_cuda() ? at::globalContext().defaultGenerator(device) : at::detail::getDefaultCPUGenerator();
}

}  // namespace

torch::Tensor RandomState(c10::Device device) {
  at::Generator generator = GeneratorOf(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state().cpu().contiguous();
}

void SetRandomState(c10::Device device, const torch::Tensor& state) {
  at::Generator generator = GeneratorOf(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace distill
