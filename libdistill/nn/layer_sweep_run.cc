#include "libdistill/nn/layer_sweep_run.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "libdistill/nn/layer_sweep_cuda.h"
#include "libdistill/tensor/own_stream.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

using torch::Tensor;

// Rows of which one of a CPU's threads adds up the gradient of the weight: the same whatever the number of threads is.
constexpr int64_t kRowsTogether = 128;

// sweep(begin, end) of rows that have so many elements.
template <typename Sweep>
void ByThreads(int64_t rows, int64_t elements, const Sweep& sweep) {
  ParallelFor(rows, std::max<int64_t>(1, kSweepGrain / std::max<int64_t>(1, elements)), sweep);
}

template <typename Work>
void OnGpu(const char* (*enqueue)(const Work&, int64_t, void*), const Work& work, int64_t rows, torch::Device device) {
  if (rows == 0) return;
  const c10::DeviceGuard guard(device);
  const char* const error = enqueue(work, rows, CurrentStream(device).native_handle());
  TORCH_CHECK(error == nullptr, "a sweep of a layer on ", device, ": ", error);
}

Tensor NormGradientByThreads(const NormRows& work, int64_t rows, bool of_weight) {
  const int64_t parts = (rows + kRowsTogether - 1) / kRowsTogether;
  Tensor sums;
  if (of_weight) sums = at::zeros({parts, work.size}, torch::kFloat32);
  ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      NormRows mine = work;
      if (of_weight) mine.weight_gradient = sums.mutable_data_ptr<float>() + part * work.size;
      SweepsFor(mine.dtype).norm_gradient(mine, part * kRowsTogether, std::min(rows, (part + 1) * kRowsTogether));
    }
  });
  return sums;
}

Tensor NormGradientOnGpu(NormRows work, int64_t rows, bool of_weight, torch::Device device) {
  Tensor sums;
  if (of_weight) {
    sums = at::empty({NormGradientParts(rows, work.size), work.size},
                     torch::TensorOptions(torch::kFloat32).device(device));
    work.weight_gradient = sums.mutable_data_ptr<float>();
  }
  OnGpu(EnqueueNormGradient, work, rows, device);
  return sums;
}

}  // namespace

std::optional<DType> LayerSweepTypeOnGpu(const Tensor& tensor) {
  if (!tensor.is_cuda() || !HasCudaLayerSweeps()) return std::nullopt;
  if (tensor.scalar_type() == torch::kFloat16) return DType::kFloat16;
  if (tensor.scalar_type() == torch::kBFloat16) return DType::kBFloat16;
  return tensor.scalar_type() == torch::kFloat32 ? std::optional(DType::kFloat32) : std::nullopt;
}

void RunNorm(const NormRows& work, int64_t rows, torch::Device device) {
  if (!device.is_cpu()) return OnGpu(EnqueueNorm, work, rows, device);
  ByThreads(rows, work.size, [&](int64_t begin, int64_t end) { SweepsFor(work.dtype).norm(work, begin, end); });
}

Tensor RunNormGradient(NormRows work, int64_t rows, bool of_weight, torch::Device device) {
  const Tensor sums =
      device.is_cpu() ? NormGradientByThreads(work, rows, of_weight) : NormGradientOnGpu(work, rows, of_weight, device);
  if (!of_weight) return sums;
  return sums.size(0) == 1 ? sums[0] : sums.sum(0);
}

void RunGated(const GatedRows& work, int64_t rows, torch::Device device) {
  if (!device.is_cpu()) return OnGpu(EnqueueGated, work, rows, device);
  ByThreads(rows, work.size, [&](int64_t begin, int64_t end) { SweepsFor(work.dtype).gated(work, begin, end); });
}

void RunGatedGradient(const GatedRows& work, int64_t rows, torch::Device device) {
  if (!device.is_cpu()) return OnGpu(EnqueueGatedGradient, work, rows, device);
  ByThreads(rows, work.size,
            [&](int64_t begin, int64_t end) { SweepsFor(work.dtype).gated_gradient(work, begin, end); });
}

void RunRotate(const RotatedRows& work, int64_t rows, torch::Device device) {
  if (!device.is_cpu()) return OnGpu(EnqueueRotate, work, rows, device);
  ByThreads(rows, work.heads * work.size,
            [&](int64_t begin, int64_t end) { SweepsFor(work.dtype).rotate(work, begin, end); });
}

}  // namespace distill
