// MXFP4, in which gpt-oss publishes its experts (docs/formats.md, "MXFP4"; OCP's "Microscaling Formats", 2023): numbers
// of four bits, of which 32 in a row share a power of two.
//
//   DISTILL_ASSIGN_OR_RETURN(const TensorView about, AboutMxfp4(blocks, scales));
//   DISTILL_ASSIGN_OR_RETURN(const TensorView weight, DequantiseMxfp4(blocks, scales));
#pragma once

#include "absl/status/statusor.h"
#include "libdistill/store/tensor_view.h"

namespace distill {

// What DequantiseMxfp4 makes, without its data: bfloat16 [experts, 32 * groups, rows], as gpt-oss multiplies by it.
// `blocks`: uint8 [experts, rows, groups, 16], two numbers a byte, the lower half first. `scales`: uint8 [experts,
// rows, groups], exponents biased by 127. Neither needs data. InvalidArgument: other types or shapes.
[[nodiscard]] absl::StatusOr<TensorView> AboutMxfp4(const TensorView& blocks, const TensorView& scales);

// The numbers themselves, which bfloat16 holds exactly; those of a scale 255, which is none, are NaN, and those beyond
// bfloat16's largest are infinite. Takes memory of its own, four times that of `blocks`, and blocks until it is filled.
// ResourceExhausted: no memory. Other errors are those of AboutMxfp4.
[[nodiscard]] absl::StatusOr<TensorView> DequantiseMxfp4(const TensorView& blocks, const TensorView& scales);

}  // namespace distill
