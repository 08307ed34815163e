// A layer of gated recurrent units over packed rows, on CPUs: what depends on the state before, frame by frame, as one
// node of autograd. Inside nn/ only.
//
// torch's own loop on CPUs takes each frame as a slice of one tensor, and in the backward pass each slice's gradient is
// a whole tensor of zeros, filled and added: the square of the frames. Here a frame costs one product with the state's
// weights, which are laid out for it once (row_products.h), and one sweep (gru_sweep.h), and the gradient of those
// weights is one product for all frames.
#pragma once

#include <ATen/core/Tensor.h>

namespace distill {

// N frames of all rows, packed as PackedSequence has them: time by time, and of each time the longest rows first; of
// time t there are batch_sizes[t]. H hidden numbers. The first four are of one type.
struct GruSequence {
  at::Tensor of_frames;     // [N, 3H]: each frame's product with its weights, and their bias
  at::Tensor weight;        // [3H, H], of the state
  at::Tensor bias;          // [3H], of the state
  at::Tensor start;         // [B, H]: the rows' state before their first frame
  at::Tensor batch_sizes;   // int64 [T], on the CPU
  bool is_reverse = false;  // from each row's last frame to its first
};

// The states [N, H], of the type of the four. The state itself and sums are float32; where the CPU multiplies bfloat16
// (AVX512-BF16) the state is rounded for its products with weights of that type. Narrower types are widened to float32
// where there are no such instructions. Differentiable in the first four, once: throws c10::Error where the gradient is
// to have one of its own (create_graph).
at::Tensor RunGru(const GruSequence& sequence);

}  // namespace distill
