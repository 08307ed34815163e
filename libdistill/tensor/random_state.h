// The state of torch's default random generator of a device, out of which dropout draws.
#pragma once

#include <torch/types.h>

namespace distill {

// A byte tensor on the CPU, as long for every state of a kind of device.
torch::Tensor RandomState(c10::Device device);
void SetRandomState(c10::Device device, const torch::Tensor& state);

// While one lives, draws begin at `state`; after it they continue where they were before.
class RandomStateScope {
 public:
  RandomStateScope(c10::Device device, const torch::Tensor& state) : device_(device), before_(RandomState(device)) {
    SetRandomState(device, state);
  }
  ~RandomStateScope() { SetRandomState(device_, before_); }
  RandomStateScope(const RandomStateScope&) = delete;
  RandomStateScope& operator=(const RandomStateScope&) = delete;

 private:
  const c10::Device device_;
  const torch::Tensor before_;
};

}  // namespace distill
