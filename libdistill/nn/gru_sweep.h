// What a gated recurrent unit (Cho et al. 2014, in torch.nn.GRU's form) does between its matrix products, on CPUs: one
// sweep over memory a frame, forward and backward, where tensor operations take a dozen. float32. No LibTorch here;
// inside nn/ only.
//
// With x the product of the frame and its weights, and s that of the state before and its weights, biases included:
//   r = sigmoid(x_r + s_r)    z = sigmoid(x_z + s_z)    n = tanh(x_n + r s_n)    state = (1 - z) n + z before
//
// Functions of rows do those from `begin` to before `end`; parts that do not overlap can go to different threads.
#pragma once

#include <cstdint>

namespace distill {

// B rows of H hidden numbers, contiguous.
struct GruFrame {
  int64_t size = 0;                 // H
  const float* of_frame = nullptr;  // x [B, 3H], as r, z and n
  const float* of_state = nullptr;  // s [B, 3H]
  float* state = nullptr;           // [B, H]: the state before, which becomes the one after
  float* output = nullptr;          // [B, H]: the one after, once more
  float* kept = nullptr;            // [B, 4H]: r, z, n and s_n, for the gradient; null where there is none
};

struct GruFrameGradient {
  int64_t size = 0;
  const float* kept = nullptr;
  const float* before = nullptr;  // [B, H]: the state before
  const float* output = nullptr;  // [B, H]: gradient of the frame's output
  // [B, H]: gradient of the state after, from the frames after it; becomes that of the state before, but for what
  // comes through s.
  float* state = nullptr;
  float* of_frame = nullptr;  // [B, 3H]: gradient of x
  float* of_state = nullptr;  // [B, 3H]: gradient of s
};

// The loops for one kind of CPU.
struct GruSweeps {
  void (*forward)(const GruFrame& frame, int64_t begin, int64_t end);
  void (*backward)(const GruFrameGradient& frame, int64_t begin, int64_t end);
};
const GruSweeps& GruSweepsOfThisCpu();

// Inside gru_sweep*.cc only, which see no types of other headers: see core/vector_math.h.
extern const GruSweeps kGruSweepsPlain, kGruSweepsAvx2, kGruSweepsAvx512;

}  // namespace distill
