#include "libdistill/tensor/convert.h"

#include <torch/utils.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr std::pair<DType, torch::Dtype> kTypes[] = {
    {DType::kFloat32, torch::kFloat32},   {DType::kFloat64, torch::kFloat64}, {DType::kFloat16, torch::kFloat16},
    {DType::kBFloat16, torch::kBFloat16}, {DType::kInt32, torch::kInt32},     {DType::kInt64, torch::kInt64},
    {DType::kUInt8, torch::kUInt8}};

}  // namespace

torch::Dtype ToTorch(DType dtype) {
  for (const auto& [ours, torchs] : kTypes) {
    if (ours == dtype) return torchs;
  }
  return torch::kFloat32;
}

absl::StatusOr<DType> FromTorch(torch::Dtype dtype) {
  for (const auto& [ours, torchs] : kTypes) {
    if (torchs == dtype) return ours;
  }
  return absl::InvalidArgumentError(absl::StrCat("tensors of type ", c10::toString(dtype), " are not supported"));
}

torch::Dtype SavedType(torch::Dtype dtype) { return dtype == torch::kBool ? torch::kUInt8 : dtype; }

absl::StatusOr<TensorView> SavedAs(torch::Dtype dtype, c10::IntArrayRef shape) {
  DISTILL_ASSIGN_OR_RETURN(const DType saved, FromTorch(SavedType(dtype)));
  return TensorView{saved, shape.vec(), nullptr, c10::multiply_integers(shape) * static_cast<int64_t>(SizeOf(saved))};
}

absl::Status PassSaved(const torch::Tensor& tensor, ByteSink sink) {
  const torch::Tensor on_host = ToHost(tensor, SavedType(tensor.scalar_type()));
  return sink({static_cast<const char*>(on_host.const_data_ptr()), on_host.nbytes()});
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
