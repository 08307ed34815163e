// Rotary position embedding (Su et al. 2021) in the half-split layout of Llama and Qwen2; inside nn/ only.
#pragma once

#include <cstdint>

#include <torch/types.h>

#include "libdistill/nn/decoder_config.h"

namespace distill {

// Cosines and sines of the angles of each token, in the dtype and on the device of what they turn.
struct RotaryAngles {
  torch::Tensor cos, sin;  // [N, 1, D / 2]
};

// Angles by position, computed once for each length, dtype and device. Not safe for two threads at a time.
class RotaryTable {
 public:
  explicit RotaryTable(const DecoderConfig& config);

  // positions int64 [N] on `like`'s device, each below `length`.
  RotaryAngles At(const torch::Tensor& positions, int64_t length, const torch::Tensor& like);

 private:
  const torch::Tensor inverse_frequencies_;  // float32 [D / 2]
  RotaryAngles table_;                       // [length, 1, D / 2]
};

// x [N, heads, D] with each pair (x[i], x[i + D/2]) turned by its token's angles. Differentiable in x.
torch::Tensor Rotate(const torch::Tensor& x, const RotaryAngles& angles);

// The same in tensor operations.
torch::Tensor RotateReference(const torch::Tensor& x, const RotaryAngles& angles);

}  // namespace distill
