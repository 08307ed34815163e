#include "libdistill/tensor/unbacked.h"

namespace distill {

c10::intrusive_ptr<c10::StorageImpl> StorageWithoutMemory(size_t bytes, c10::Device device) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                               c10::DataPtr(nullptr, device),
                                               /*allocator=*/nullptr, /*resizable=*/false);
}

torch::Tensor ViewInto(const c10::intrusive_ptr<c10::StorageImpl>& storage, int64_t offset, c10::IntArrayRef shape,
                       const torch::TensorOptions& options) {
  torch::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage),
                                                                torch::empty({0}, options).key_set(), options.dtype());
  view.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  view.unsafeGetTensorImpl()->set_storage_offset(offset);
  return view;
}

torch::Tensor WithoutMemory(c10::IntArrayRef shape, torch::Dtype dtype, c10::Device device) {
  const auto bytes = static_cast<size_t>(c10::multiply_integers(shape)) * torch::elementSize(dtype);
  return ViewInto(StorageWithoutMemory(bytes, device), 0, shape, torch::TensorOptions().dtype(dtype).device(device));
}

bool HasMemory(const torch::Tensor& tensor) { return tensor.numel() == 0 || tensor.storage().data() != nullptr; }

}  // namespace distill
