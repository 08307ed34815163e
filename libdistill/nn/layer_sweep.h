// What a model does to its states between matrix products, on CPUs: each operation one sweep over memory, forward and
// backward, where tensor operations take five to ten. float32 or bfloat16, with arithmetic and sums in float32; loops
// for the CPU's widest vectors (core/vectors.h). The tensor operations that they stand for are beside their callers
// (norm_and_gate.cc, rotary.cc, dropout.cc) and are what other types take. GPUs have kernels of the same formulas
// (layer_sweep_cuda.h), but for dropping. No LibTorch here; inside nn/ only.
//
// Functions of rows do those from `begin` to before `end`: parts that do not overlap can go to different threads, each
// with a weight_gradient of its own. The same bits on every call; but for that sum also however rows are dealt out.
#pragma once

#include <cstdint>

#include "libdistill/core/dtype.h"
#include "libdistill/nn/dropping.h"

namespace distill {

// N rows of H elements, contiguous. output = input * scale * (weight + offset), scale = 1 / sqrt(mean(input^2) +
// epsilon); where it rounds, input * scale is rounded before it is multiplied (nn/decoder_config.h, NormKind).
struct NormRows {
  DType dtype = DType::kFloat32;
  int64_t size = 0;                  // H
  const void* input = nullptr;       // [N, H]
  const void* weight = nullptr;      // [H]
  float* scales = nullptr;           // [N]; written by norm, read by norm_gradient
  void* output = nullptr;            // [N, H], of norm
  float epsilon = 0;                 // of norm
  bool rounds = true;                // of norm; then the offset is 0
  float offset = 0;                  // 0 or 1
  const void* gradient = nullptr;    // [N, H], of the output; and the rest for norm_gradient
  void* input_gradient = nullptr;    // [N, H], or null
  float* weight_gradient = nullptr;  // [H], added up, or null
};

// N rows of F elements: output = act(gate) * up, with act(x) = silu(x) = x / (1 + exp(-x)), or gelu by tanh,
// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
struct GatedRows {
  DType dtype = DType::kFloat32;
  bool is_gelu = false;
  int64_t size = 0;  // F
  const void* gate = nullptr;
  const void* up = nullptr;
  int64_t row_stride = 0;          // of gate and up, and of their gradients, in elements
  void* output = nullptr;          // contiguous, of gated
  const void* gradient = nullptr;  // of the output, contiguous; and the rest for gated_gradient
  void* gate_gradient = nullptr;
  void* up_gradient = nullptr;
};

// N rows (tokens) of `heads` times `size` elements. Each pair (x[i], x[half + i]) of a head is rotated by its row's
// angle i: (x1 cos - x2 sin, x2 cos + x1 sin), or with `back` by the negative angle. Elements behind the pairs stay.
struct RotatedRows {
  DType dtype = DType::kFloat32;
  int64_t heads = 0;
  int64_t size = 0;
  int64_t half = 0;
  const void* input = nullptr;
  int64_t row_stride = 0;  // of the input, in elements
  int64_t head_stride = 0;
  const void* cos = nullptr;  // [N, half]
  const void* sin = nullptr;
  bool back = false;
  void* output = nullptr;  // [N, heads, size]
};

// output = residual + input * factor, element by element; without a residual input * factor.
struct DroppedElements {
  DType dtype = DType::kFloat32;
  Dropping dropping = {};
  int64_t size = 0;  // elements; functions take blocks of kDropBlock, of which the last may be shorter
  const void* input = nullptr;
  const void* residual = nullptr;
  void* output = nullptr;
};

// The loops for one kind of CPU.
struct LayerSweeps {
  void (*norm)(const NormRows& rows, int64_t begin, int64_t end);
  // With y = input * scale and g = gradient * (weight + offset): scale * (g - y * mean(g * y)), and gradient * y for
  // the weight.
  void (*norm_gradient)(const NormRows& rows, int64_t begin, int64_t end);
  void (*gated)(const GatedRows& rows, int64_t begin, int64_t end);
  void (*gated_gradient)(const GatedRows& rows, int64_t begin, int64_t end);
  void (*rotate)(const RotatedRows& rows, int64_t begin, int64_t end);
  void (*drop)(const DroppedElements& elements, int64_t begin, int64_t end);
};
// This CPU's. `dtype` must be one of the two, or the process ends.
const LayerSweeps& SweepsFor(DType dtype);

// Inside layer_sweep*.cc only, which see no types of other headers: see core/vector_math.h.
extern const LayerSweeps kLayerSweepsPlain, kLayerSweepsAvx2, kLayerSweepsAvx512;

}  // namespace distill
