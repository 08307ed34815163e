// What files hold of a tensor: its values in its own type, bool as uint8.
#pragma once

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/store/safetensors.h"

namespace distill {

// The type that a file has for `dtype`.
torch::Dtype SavedType(torch::Dtype dtype);
// What a file says of a tensor of this type and shape, without its data. InvalidArgument: a type that no file holds.
[[nodiscard]] absl::StatusOr<TensorView> SavedAs(torch::Dtype dtype, c10::IntArrayRef shape);
// Its bytes, in that type.
[[nodiscard]] absl::Status PassSaved(const torch::Tensor& tensor, ByteSink sink);

}  // namespace distill
