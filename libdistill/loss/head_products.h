// A head's products of narrow tensors with a float32 result, where the device has them; inside loss/ only.
#pragma once

#include <torch/types.h>

namespace distill {

// Whether WideMultiply takes tensors of `like`'s type and device: bfloat16 on GPUs of compute capability 8.0 or later,
// float16 of 7.0, in a build with CUDA. Elsewhere LibTorch's products, in the tensors' own type, have to do.
bool HasWideProducts(const torch::Tensor& like);

// sum = a b, or sum += a b: float32 [m, n], whose rows lie in one piece each; a [m, k] and b [k, n] of one narrow type,
// each contiguous along one of its dimensions. Without memory but cuBLAS's workspace; does not wait for the GPU. Where
// cuBLAS knows no way, LibTorch's product in the narrow type is taken, which is rounded and takes memory of its own; it
// is said once. Throws c10::Error where cuBLAS fails.
void WideMultiply(const torch::Tensor& a, const torch::Tensor& b, bool adds, const torch::Tensor& sum);

}  // namespace distill
