// What a gated recurrent unit (Cho et al. 2014, in torch.nn.GRU's form) does between its matrix products, on CPUs: one
// sweep over memory a frame, forward and backward, where tensor operations take a dozen. T is float32 or bfloat16;
// arithmetic and the state are float32. No LibTorch here; inside nn/ only.
//
// With x the product of the frame and its weights, and s that of the state before and its weights, biases included:
//   r = sigmoid(x_r + s_r)    z = sigmoid(x_z + s_z)    n = tanh(x_n + r s_n)    state = (1 - z) n + z before
//
// Functions of rows do those from `begin` to before `end`; parts that do not overlap can go to different threads.
#pragma once

#include <cstdint>

#include "libdistill/core/dtype.h"

namespace distill {

// B rows of H hidden numbers, contiguous.
struct GruFrame {
  int64_t size = 0;                 // H
  const void* of_frame = nullptr;   // T [B, 3H]: x, as r, z and n
  const float* of_state = nullptr;  // [B, 3H]: s
  float* state = nullptr;           // [B, H]: the state before, which becomes the one after
  void* output = nullptr;           // T [B, H]: the one after, once more
  void* operand = nullptr;          // T [B, H]: and again, for the next product; or null
  void* kept = nullptr;             // T [B, 4H]: r, z, n and s_n, for the gradient; null where there is none
};

struct GruFrameGradient {
  int64_t size = 0;
  const void* kept = nullptr;
  const void* before = nullptr;  // T [B, H]: the state before
  const void* output = nullptr;  // T [B, H]: gradient of the frame's output
  // [B, H]: gradient of the state after, from the frames after it; becomes that of the state before, but for what
  // comes through s.
  float* state = nullptr;
  void* of_frame = nullptr;  // T [B, 3H]: gradient of x
  void* of_state = nullptr;  // T [B, 3H]: gradient of s
};

// The loops for one kind of CPU and one T.
struct GruSweeps {
  void (*forward)(const GruFrame& frame, int64_t begin, int64_t end);
  void (*backward)(const GruFrameGradient& frame, int64_t begin, int64_t end);
};
// This CPU's. `dtype` must be one of the two, or the process ends.
const GruSweeps& GruSweepsFor(DType dtype);

// Inside gru_sweep*.cc only, which see no types of other headers: see core/vector_math.h.
extern const GruSweeps kGruSweepsPlain, kGruSweepsAvx2, kGruSweepsAvx512;
extern const GruSweeps kBFloatGruSweepsPlain, kBFloatGruSweepsAvx2, kBFloatGruSweepsAvx512;

}  // namespace distill
