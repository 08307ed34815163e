// The sweeps of layer_sweep.h over all rows, where the tensors are: on a CPU by its threads, on a GPU by the kernels of
// layer_sweep_cuda.h on its current stream, for which nobody waits. The results' bits do not depend on the number of
// threads. Throws c10::Error where a kernel does not start. Inside nn/ only.
#pragma once

#include <optional>

#include <torch/types.h>

#include "libdistill/nn/layer_sweep.h"
#include "libdistill/nn/sweep_type.h"

namespace distill {

// Of a tensor on a GPU for which this build has kernels: float32, bfloat16 or float16.
std::optional<DType> LayerSweepTypeOnGpu(const torch::Tensor& tensor);

// The type of all of them where they are on one device, alike, and of a type that has these sweeps there.
template <typename... More>
std::optional<DType> LayerSweepType(const torch::Tensor& first, const More&... more) {
  if (first.is_cpu()) return SweepType(first, more...);
  const bool are_alike = ((more.device() == first.device() && more.scalar_type() == first.scalar_type()) && ...);
  return are_alike ? LayerSweepTypeOnGpu(first) : std::nullopt;
}

void RunNorm(const NormRows& work, int64_t rows, torch::Device device);
// The gradient of the weight, float32 [H], where it is wanted; that of the input goes to work.input_gradient.
torch::Tensor RunNormGradient(NormRows work, int64_t rows, bool of_weight, torch::Device device);

void RunGated(const GatedRows& work, int64_t rows, torch::Device device);
void RunGatedGradient(const GatedRows& work, int64_t rows, torch::Device device);

void RunRotate(const RotatedRows& work, int64_t rows, torch::Device device);

}  // namespace distill
