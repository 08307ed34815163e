// What is done to a chunk's logits, on whatever device and in whatever type they are; inside loss/ only.
#pragma once

#include <torch/types.h>

#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/sweep.h"

namespace distill {

// Of one model for one chunk: C tokens, V vocabulary.
struct ChunkProducts {
  torch::Tensor values;  // [C, V], each row in one piece: hidden W^T, without bias
  torch::Tensor bias;    // [V] or undefined, in the wide type: float32, or float64 for float64 products
  LogitScaling scaling;
  torch::Tensor tail = {};  // [C], wide, or undefined: of a teacher's top-k values (RowOfProducts::tail)
  // [C, V]: where the gradient goes. Undefined: it takes the place of the values. Otherwise these are float32, it is
  // bfloat16 or float16, and it takes the front of each of their rows.
  torch::Tensor narrow_gradient = {};
  const torch::Tensor& gradient() const { return narrow_gradient.defined() ? narrow_gradient : values; }
};

struct ChunkSums {
  torch::Tensor divergence;  // float64 scalar, without T^2
  torch::Tensor ce;
};

// Sums over the chunk. gradient_scale times the gradient of alpha * T^2 * divergence + (1 - alpha) * ce with respect to
// the student's products is put into student.gradient(), where it is wanted; student.values hold anything then.
// `divergence`: kNone where there is no teacher. labels: int64 [C]. float32, bfloat16 and float16 go through sweep.h on
// the CPU, and through sweep_cuda.h on a GPU, without waiting for it; all else takes SweepTensors.
ChunkSums SweepChunk(const ChunkProducts& student, const ChunkProducts& teacher, const torch::Tensor& labels,
                     const DistillationOptions& options, Divergence divergence, bool wants_gradient);

// The same in torch's operations, which the others are compared with: in float32, or in float64 for float64 products.
// About eight tensors [C, V] are alive.
ChunkSums SweepTensors(const ChunkProducts& student, const ChunkProducts& teacher, const torch::Tensor& labels,
                       const DistillationOptions& options, Divergence divergence, bool wants_gradient);

}  // namespace distill
