// What the sweep of a chunk works on: both models' products, whatever the teacher's are made of; inside loss/ only.
// Shapes: N loss tokens, C of them in one chunk, V vocabulary, H hidden, K ids of a token.
#pragma once

#include <cstdint>
#include <optional>

#include <torch/types.h>

#include "libdistill/loss/chunk_sweep.h"
#include "libdistill/loss/distillation_loss.h"

namespace distill {

// A head's first V rows, and its products chunk by chunk: in float32 where the device has such products of narrow
// matrices (head_products.h), elsewhere in the type of the weight.
class Head {
 public:
  Head(const torch::Tensor& weight, const torch::Tensor& bias, const LogitScaling& scaling, int64_t vocabulary,
       int64_t chunk);
  const torch::Tensor& weight() const { return weight_; }
  bool is_wide() const { return is_wide_; }  // float32 products of a narrow weight

  // In a buffer that the next call writes to. `hidden`: [C, H].
  ChunkProducts Products(const torch::Tensor& hidden) const;

 private:
  const torch::Tensor weight_, weight_t_;
  const LogitScaling scaling_;
  const bool is_wide_;
  torch::Tensor bias_;
  torch::Tensor buffer_;  // [C, V], or [C, WideRowStride(V)] of wide products
};

// The teacher's products in each of its forms: a head's, its logits as they are, or top-k values spread over [C, V].
class TeacherChunks {
 public:
  // `has_tail`: top-k values are log-probabilities, and what they leave is the tail's.
  TeacherChunks(const DistillationInputs& inputs, double temperature, int64_t vocabulary, int64_t chunk, bool has_tail);

  // Of tokens first .. first + count; until the next call. No values where there is no teacher.
  ChunkProducts Products(int64_t first, int64_t count) const;

 private:
  void Spread(const torch::Tensor& values, const torch::Tensor& ids, ChunkProducts& products) const;

  const DistillationInputs& inputs_;
  const double temperature_;
  const int64_t vocabulary_;
  const bool has_tail_;
  std::optional<Head> head_;
  torch::Tensor buffer_;  // [C, V], of top-k values
};

// The logarithm of what the probabilities of each row, [N, K], leave to all others: [N]. Minus infinity where that is
// nothing; no number where they are none, which CheckMass says.
torch::Tensor LogTail(const torch::Tensor& log_probabilities);

// Throws c10::ValueError where a row's probabilities add up to more than 1, but for rounding. On a GPU, where nobody
// waits to learn it, it does nothing.
void CheckMass(const torch::Tensor& log_probabilities);

}  // namespace distill
