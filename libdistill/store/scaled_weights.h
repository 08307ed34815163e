// Matrices of eight-bit numbers and the scales that stretch them (docs/formats.md, "Quantised weights").
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/tensor_view.h"

namespace distill {

// How many rows and columns of a weight have a scale together.
struct ScaledBlock {
  int64_t rows = 0;
  int64_t columns = 0;
};

// The part of a matrix that each of its scales is for: all of it, a row, or `block` where the model's config has one.
// InvalidArgument: scales of this shape fit none of these.
[[nodiscard]] absl::StatusOr<ScaledBlock> BlockOfScales(const std::vector<int64_t>& weight,
                                                        const std::vector<int64_t>& scales,
                                                        std::optional<ScaledBlock> block);

// float32: each element of `weight` (bfloat16, [rows, columns]) times its scale (float32, bfloat16 or float16,
// row-major over the blocks). ResourceExhausted: no memory. InvalidArgument: scales of another type.
[[nodiscard]] absl::StatusOr<TensorView> MultiplyByScales(const TensorView& weight, const TensorView& scales,
                                                          const ScaledBlock& block);

}  // namespace distill
