// Smoothing of features along time, as the public brain-to-text baseline does it.
#pragma once

#include <vector>

#include <torch/types.h>

#include "absl/status/statusor.h"

namespace distill {

// What scipy's gaussian_filter1d makes of an impulse in the middle of `size` bins, without values up to 0.01, scaled to
// a sum of 1. InvalidArgument: nothing is left, or `size` cuts the kernel, which reaches 4 deviations.
[[nodiscard]] absl::StatusOr<std::vector<float>> SmoothingKernel(double deviation, int64_t size);

// features [B, T, F], zeros beyond both ends: [B, T, F], of the same type.
torch::Tensor SmoothAlongTime(const torch::Tensor& features, const std::vector<float>& kernel);
// The same in tensor operations, which GPUs take and tests compare with.
torch::Tensor SmoothByAdditions(const torch::Tensor& features, const std::vector<float>& kernel);

}  // namespace distill
