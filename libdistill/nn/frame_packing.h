// Frames of rows of different lengths side by side, without their padding, in the order of PackedSequence: time by
// time, and of each time the longest rows first. On CPUs; GPUs have torch's pack_padded_sequence, which takes several
// copies and in the backward pass adds numbers one by one. Inside nn/ only.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distill {

// B rows, T times, N frames in all.
struct FramePacking {
  std::vector<int64_t> rows;  // [B]: the longest first, as they come where they are equally long
  at::Tensor batch_sizes;     // int64 [longest row]: how many rows have a frame at each time
};
// lengths: int64 [B], on the CPU, each at least 1.
FramePacking PackingOf(const at::Tensor& lengths);

// features [B, T, F] of any strides -> [N, F]. Differentiable once, as UnpackFrames.
at::Tensor PackFrames(const at::Tensor& features, const FramePacking& packing);
// frames [N, F] -> [times, B, F], zeros where a row has no frame. `times`: at least the longest row's.
at::Tensor UnpackFrames(const at::Tensor& frames, const FramePacking& packing, int64_t times);

}  // namespace distill
