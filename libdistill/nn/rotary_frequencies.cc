#include "libdistill/nn/rotary_frequencies.h"

#include <algorithm>
#include <cmath>

namespace distill {
namespace {

using torch::Tensor;

// Slow rotations are divided by the factor, fast ones kept, those between interpolated.
Tensor StretchAsLlama3(const Tensor& frequencies, const RopeConfig& rope) {
  const double length = rope.original_length;
  const Tensor wavelength = 2 * M_PI / frequencies;
  const Tensor smooth = (length / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  const Tensor between = (1 - smooth) * frequencies / rope.factor + smooth * frequencies;
  const Tensor slow = wavelength > length / rope.low_freq_factor;
  const Tensor fast = wavelength < length / rope.high_freq_factor;
  return torch::where(slow, frequencies / rope.factor, torch::where(fast, frequencies, between));
}

// The same by how often a pair rotates within a text of the original length: more than beta_fast times, or less than
// beta_slow.
Tensor StretchAsYarn(const Tensor& frequencies, const RopeConfig& rope, int64_t size) {
  const auto pair_that_rotates = [&](double times) {
    return static_cast<double>(size) * std::log(rope.original_length / (times * 2 * M_PI)) / (2 * std::log(rope.theta));
  };
  double low = pair_that_rotates(rope.beta_fast), high = pair_that_rotates(rope.beta_slow);
  if (rope.truncates) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(size - 1));
  if (low == high) high += 0.001;
  const Tensor slow = ((torch::arange(size / 2, torch::kFloat32) - low) / (high - low)).clamp(0, 1);
  return frequencies / rope.factor * slow + frequencies * (1 - slow);
}

// "NTK-aware" scaling: a larger base for texts longer than the model's.
double DynamicTheta(const RopeConfig& rope, int64_t size, int64_t key) {
  const double length = key == 0 ? rope.longest : static_cast<double>(key);
  return rope.theta * std::pow(rope.factor * length / rope.longest - (rope.factor - 1),
                               static_cast<double>(size) / static_cast<double>(size - 2));
}

}  // namespace

Tensor InverseFrequencies(const RopeConfig& rope, int64_t head_size, int64_t key) {
  const int64_t size = rope.RotatedOf(head_size);
  const double theta = rope.type == RopeType::kDynamic ? DynamicTheta(rope, size, key) : rope.theta;
  const Tensor periods = torch::pow(theta, torch::arange(0, size, 2, torch::kFloat32) / static_cast<double>(size));
  switch (rope.type) {
    case RopeType::kLinear:
      return 1.0 / periods / rope.factor;
    case RopeType::kYarn:
      return StretchAsYarn(1.0 / periods, rope, size);
    case RopeType::kLongRope:
      return 1.0 / (torch::tensor(key == 0 ? rope.short_factors : rope.long_factors, torch::kFloat32) * periods);
    case RopeType::kLlama3:
      return StretchAsLlama3(1.0 / periods, rope);
    default:
      return 1.0 / periods;
  }
}

}  // namespace distill
