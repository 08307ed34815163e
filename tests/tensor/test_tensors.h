// What tests of models and losses share: devices to run on, golden values, and how far two tensors are apart.
#pragma once

#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <torch/cuda.h>
#include <torch/types.h>

#include "libdistill/store/safetensors.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/exact_float32.h"
#include "tests/support/catch.h"

namespace distill {

// The CPU, and the first GPU where there is one.
inline std::vector<torch::Device> TestDevices() {
  std::vector<torch::Device> devices = {torch::kCPU};
  if (torch::cuda::is_available()) {
    MultiplyFloat32Exactly();  // as distill::Run does
    devices.emplace_back(torch::kCUDA, 0);
  } else {
    static const int once = std::printf("skipped on GPUs: no CUDA device\n");
    (void)once;
  }
  return devices;
}

inline std::map<std::string, torch::Tensor> ReadTensors(const std::string& path) {
  const auto file = SafetensorsFile::Open(path);
  INFO(file.status());
  REQUIRE(file.ok());
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, view] : file->tensors()) {
    tensors[name] = torch::empty(view.shape, ToTorch(view.dtype));
    const auto loaded = file->Load(name);
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    CopyFromView(*loaded, tensors[name]);
  }
  return tensors;
}

// The larger of |actual - expected| / |expected| in the 2-norm and in the maximum norm; not a number never passes.
inline double RelativeError(const torch::Tensor& actual, const torch::Tensor& expected) {
  REQUIRE(actual.sizes() == expected.sizes());
  if (expected.numel() == 0) return 0.0;
  const torch::Tensor a = actual.detach().to(torch::kCPU, torch::kFloat64);
  const torch::Tensor e = expected.detach().to(torch::kCPU, torch::kFloat64);
  const auto ratio = [](const torch::Tensor& difference, const torch::Tensor& size) {
    const double d = difference.item<double>(), s = size.item<double>();
    return d == 0 ? 0.0 : d / s;
  };
  const double norms = ratio((a - e).norm(), e.norm()), maxima = ratio((a - e).abs().max(), e.abs().max());
  return norms > maxima || std::isnan(norms) ? norms : maxima;
}

}  // namespace distill
