#include "examples/brain2text/smoothing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "examples/brain2text/feature_sweep.h"
#include "libdistill/tensor/parallel.h"

namespace distill {

absl::StatusOr<std::vector<float>> SmoothingKernel(double deviation, int64_t size) {
  constexpr double kReach = 4;  // deviations, as scipy truncates
  constexpr double kNegligible = 0.01;
  const auto radius = static_cast<int64_t>(kReach * deviation + 0.5);
  if (radius > size / 2 || size / 2 + radius >= size) {
    return absl::InvalidArgumentError(absl::StrCat("smooth_kernel_size is ", size,
                                                   ", and a kernel of smooth_kernel_std ", deviation, " needs ",
                                                   2 * radius + 2, ": set one of them"));
  }
  std::vector<double> all;
  for (int64_t i = -radius; i <= radius; ++i) {
    const double x = static_cast<double>(i) / deviation;
    all.push_back(std::exp(-0.5 * x * x));
  }
  const double sum = std::accumulate(all.begin(), all.end(), 0.0);
  std::vector<double> kept;
  for (const double value : all) {
    if (value / sum > kNegligible) kept.push_back(value);
  }
  if (kept.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("smooth_kernel_std is ", deviation,
                                                   ": no value of such a kernel is above ", kNegligible, ": lower it"));
  }
  const double sum_kept = std::accumulate(kept.begin(), kept.end(), 0.0);
  std::vector<float> kernel;
  for (const double value : kept) kernel.push_back(static_cast<float>(value / sum_kept));
  return kernel;
}

torch::Tensor SmoothByAdditions(const torch::Tensor& features, const std::vector<float>& kernel) {
  // Not by a convolution: of a single channel oneDNN makes 16.
  const size_t middle = kernel.size() / 2;
  const int64_t bins = features.size(1);
  torch::Tensor smoothed = features * kernel[middle];
  for (int64_t k = 1; k <= std::min(static_cast<int64_t>(middle), bins - 1); ++k) {
    const float weight = kernel[middle + static_cast<size_t>(k)];
    smoothed.narrow(1, k, bins - k).add_(features.narrow(1, 0, bins - k), weight);
    smoothed.narrow(1, 0, bins - k).add_(features.narrow(1, k, bins - k), weight);
  }
  return smoothed;
}

torch::Tensor SmoothAlongTime(const torch::Tensor& features, const std::vector<float>& kernel) {
  const bool needs_gradient = torch::GradMode::is_enabled() && features.requires_grad();
  if (!features.is_cpu() || features.scalar_type() != torch::kFloat32 || needs_gradient) {
    return SmoothByAdditions(features, kernel);
  }
  const torch::Tensor input = features.contiguous(), smoothed = torch::empty_like(input);
  const int64_t bins = input.size(1), size = input.size(2);
  constexpr int64_t kGrain = 1 << 15;  // elements that a thread should have at least
  for (int64_t row = 0; row < input.size(0); ++row) {
    const SmoothedBins of_row = {.input = input.const_data_ptr<float>() + row * bins * size,
                                 .output = smoothed.mutable_data_ptr<float>() + row * bins * size,
                                 .bins = bins,
                                 .features = size,
                                 .weights = kernel.data(),
                                 .size = static_cast<int64_t>(kernel.size())};
    ParallelFor(bins, std::max<int64_t>(1, kGrain / size),
                [&](int64_t begin, int64_t end) { FeatureSweepsOfThisCpu().smooth(of_row, begin, end); });
  }
  return smoothed;
}

}  // namespace distill
