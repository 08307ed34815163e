// Between torch's tensors and the plain types of the rooms that do not see torch.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/core/dtype.h"
#include "libdistill/store/safetensors.h"

namespace distill {

torch::Dtype ToTorch(DType dtype);
// InvalidArgument for types that DType lacks.
[[nodiscard]] absl::StatusOr<DType> FromTorch(torch::Dtype dtype);

// A contiguous tensor in host memory with these values, as `dtype`; the tensor itself when it already is one.
torch::Tensor ToHost(const torch::Tensor& tensor, torch::Dtype dtype);

// int64 [values]. To a GPU the copy is enqueued on its current stream, out of pinned memory that torch keeps until it
// is done: nobody waits.
torch::Tensor ToDevice(const std::vector<int64_t>& values, torch::Device device);

// The bytes of a contiguous tensor in host memory, alive as long as the tensor is; throws c10::Error for others.
TensorView ViewOf(const torch::Tensor& tensor);

// Copies the view's values into `destination`, of the same shape, whatever its dtype and device. Throws c10::Error.
void CopyFromView(const TensorView& view, torch::Tensor destination);

// What files hold of a tensor: its values in its own type, bool as uint8.
torch::Dtype SavedType(torch::Dtype dtype);
// What a file says of a tensor of this type and shape, without its data. InvalidArgument: a type that no file holds.
[[nodiscard]] absl::StatusOr<TensorView> SavedAs(torch::Dtype dtype, c10::IntArrayRef shape);
// Its bytes, in that type.
[[nodiscard]] absl::Status PassSaved(const torch::Tensor& tensor, ByteSink sink);

// "[32000, 4096]"
std::string ShapeToString(c10::IntArrayRef shape);

}  // namespace distill
