// What is done to a chunk's logits, on whatever device and in whatever type they are; inside loss/ only.
#pragma once

#include <cstdint>

#include <torch/types.h>

#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/sweep.h"

namespace distill {

// Of one model for one chunk: C tokens, V vocabulary.
struct ChunkProducts {
  torch::Tensor values;  // [C, V], contiguous: hidden W^T, without bias
  torch::Tensor bias;    // [V] or undefined, in the wide type: float32, or float64 for float64 products
  LogitScaling scaling;
};

struct ChunkSums {
  torch::Tensor divergence;  // float64 scalar, without T^2
  torch::Tensor ce;
};

class ChunkSweep {
 public:
  // `divergence`: kNone where there is no teacher.
  ChunkSweep(const DistillationOptions& options, Divergence divergence, bool wants_gradient)
      : options_(options), divergence_(divergence), wants_gradient_(wants_gradient) {}

  // Sums over the chunk. gradient_scale times the gradient of alpha * T^2 * divergence + (1 - alpha) * ce with respect
  // to the student's products takes the place of student.values, where it is wanted; otherwise they hold anything.
  // labels: int64 [C]. float32, bfloat16 and float16 go through sweep.h on the CPU, and through sweep_cuda.h on a GPU,
  // without waiting for it; all else takes torch's operations and several more [C, V].
  ChunkSums Run(const ChunkProducts& student, const ChunkProducts& teacher, const torch::Tensor& labels) const;

 private:
  SweepOptions RowOptions(const ChunkProducts& student, const ChunkProducts& teacher) const;
  ChunkSums RunRows(const ChunkProducts& student, const ChunkProducts& teacher, const torch::Tensor& labels) const;
  ChunkSums RunOnGpu(const ChunkProducts& student, const ChunkProducts& teacher, const torch::Tensor& labels) const;

  const DistillationOptions& options_;
  const Divergence divergence_;
  const bool wants_gradient_;
};

}  // namespace distill
