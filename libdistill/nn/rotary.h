// Rotary position embedding (Su et al. 2021) in the half-split layout of Llama and all other families here; inside nn/
// only.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <torch/types.h>

#include "libdistill/nn/rope_config.h"

namespace distill {

// Cosines and sines of the angles of each token, in the dtype and on the device of what they rotate. R: rotated
// elements of a head, D or fewer.
struct RotaryAngles {
  torch::Tensor cos, sin;  // [N, 1, R / 2]
};

// A document in the flat order of tokens.
struct DocumentSpan {
  int64_t tokens;  // there, padding included
  int64_t length;  // of the document, with what came before these tokens
};

// Angles by position, computed once for each length, dtype and device. Not safe for two threads at a time.
class RotaryTable {
 public:
  RotaryTable(const RopeConfig& rope, int64_t head_size) : rope_(rope), head_size_(head_size) {}

  // positions int64 [N] on `like`'s device, each below `length`. `documents`, of N tokens together: looked at where the
  // angles depend on how long a document is.
  RotaryAngles At(const torch::Tensor& positions, int64_t length, const std::vector<DocumentSpan>& documents,
                  const torch::Tensor& like);

 private:
  RotaryAngles Compute(int64_t key, const torch::Tensor& positions, const torch::Tensor& like) const;
  // [length, 1, R / 2] at least
  const RotaryAngles& Table(int64_t key, int64_t length, const torch::Tensor& like);

  const RopeConfig rope_;
  const int64_t head_size_;
  std::map<int64_t, RotaryAngles> tables_;  // by RopeConfig::KeyOf
};

// x [N, heads, D] with each pair (x[i], x[i + R/2]) rotated by its token's angles. Differentiable in x.
torch::Tensor Rotate(const torch::Tensor& x, const RotaryAngles& angles);

// The same in tensor operations.
torch::Tensor RotateReference(const torch::Tensor& x, const RotaryAngles& angles);

}  // namespace distill
