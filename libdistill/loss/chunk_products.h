// What the sweep of a chunk works on: both models' products, whatever the teacher's are made of; inside loss/ only.
// Shapes: N loss tokens, C of them in one chunk, V vocabulary, H hidden, K ids of a token.
#pragma once

#include <cstdint>
#include <optional>

#include <torch/types.h>

#include "libdistill/loss/chunk_sweep.h"
#include "libdistill/loss/distillation_loss.h"

namespace distill {

// A head's first V rows, and its products chunk by chunk.
class Head {
 public:
  Head(const torch::Tensor& weight, const torch::Tensor& bias, const LogitScaling& scaling, int64_t vocabulary,
       int64_t chunk);
  const torch::Tensor& weight() const { return weight_; }

  // In a buffer that the next call writes to. `hidden`: [C, H].
  ChunkProducts Products(const torch::Tensor& hidden) const;

 private:
  const torch::Tensor weight_, weight_t_;
  const LogitScaling scaling_;
  torch::Tensor bias_;
  torch::Tensor buffer_;  // [C, V]
};

// The teacher's products in each of its forms: a head's, its logits as they are, or top-k values spread over [C, V].
class TeacherChunks {
 public:
  TeacherChunks(const DistillationInputs& inputs, double temperature, int64_t vocabulary, int64_t chunk);

  // Of tokens first .. first + count; until the next call. No values where there is no teacher.
  ChunkProducts Products(int64_t first, int64_t count) const;

 private:
  torch::Tensor Spread(const torch::Tensor& values, const torch::Tensor& ids) const;

  const DistillationInputs& inputs_;
  const double temperature_;
  const int64_t vocabulary_;
  std::optional<Head> head_;
  torch::Tensor buffer_;  // [C, V], of top-k values
};

}  // namespace distill
