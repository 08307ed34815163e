#include "libdistill/tensor/convert.h"

#include <algorithm>

#include <torch/utils.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace distill {

torch::Dtype ToTorch(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return torch::kFloat32;
    case DType::kFloat64:
      return torch::kFloat64;
    case DType::kFloat16:
      return torch::kFloat16;
    case DType::kBFloat16:
      return torch::kBFloat16;
    case DType::kInt32:
      return torch::kInt32;
    case DType::kInt64:
      return torch::kInt64;
    case DType::kUInt8:
      return torch::kUInt8;
  }
  return torch::kFloat32;
}

absl::StatusOr<DType> FromTorch(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kFloat32:
      return DType::kFloat32;
    case torch::kFloat64:
      return DType::kFloat64;
    case torch::kFloat16:
      return DType::kFloat16;
    case torch::kBFloat16:
      return DType::kBFloat16;
    case torch::kInt32:
      return DType::kInt32;
    case torch::kInt64:
      return DType::kInt64;
    case torch::kUInt8:
      return DType::kUInt8;
    default:
      return absl::InvalidArgumentError(absl::StrCat("tensors of type ", c10::toString(dtype), " are not supported"));
  }
}

torch::Tensor ToHost(const torch::Tensor& tensor, torch::Dtype dtype) {
  return tensor.detach().to(torch::kCPU, dtype).contiguous();
}

torch::Tensor ToDevice(const std::vector<int64_t>& values, torch::Device device) {
  const auto options = torch::TensorOptions(torch::kInt64).pinned_memory(device.is_cuda());
  const torch::Tensor host = torch::empty({static_cast<int64_t>(values.size())}, options);
  std::copy(values.begin(), values.end(), host.data_ptr<int64_t>());
  return host.to(device, /*non_blocking=*/true);
}

TensorView ViewOf(const torch::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.is_contiguous(), "a view needs a contiguous tensor in host memory");
  const absl::StatusOr<DType> dtype = FromTorch(tensor.scalar_type());
  TORCH_CHECK(dtype.ok(), std::string(dtype.status().message()));
  return {.dtype = *dtype,
          .shape = tensor.sizes().vec(),
          .data = tensor.const_data_ptr(),
          .size_bytes = static_cast<int64_t>(tensor.nbytes())};
}

void CopyFromView(const TensorView& view, torch::Tensor destination) {
  TORCH_CHECK(destination.sizes() == c10::IntArrayRef(view.shape), "shapes ", ShapeToString(view.shape), " and ",
              ShapeToString(destination.sizes()), " differ");
  const torch::NoGradGuard no_grad;
  const torch::Dtype dtype = ToTorch(view.dtype);
  torch::Tensor source;
  if (reinterpret_cast<uintptr_t>(view.data) % SizeOf(view.dtype) == 0) {
    source = torch::from_blob(const_cast<void*>(view.data), view.shape, dtype);
  } else {  // a file's writer may have aligned nothing
    source = torch::empty(view.shape, dtype);
    if (view.size_bytes > 0) std::memcpy(source.mutable_data_ptr(), view.data, view.size_bytes);
  }
  destination.copy_(source);
}

std::string ShapeToString(c10::IntArrayRef shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

}  // namespace distill
