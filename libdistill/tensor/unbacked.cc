#include "libdistill/tensor/unbacked.h"

#include "absl/strings/str_cat.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {

c10::intrusive_ptr<c10::StorageImpl> StorageWithoutMemory(size_t bytes, c10::Device device) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                               c10::DataPtr(nullptr, device),
                                               /*allocator=*/nullptr, /*resizable=*/false);
}

c10::intrusive_ptr<c10::StorageImpl> RefusingStorage(size_t bytes, c10::Device device, const std::string& name,
                                                     const std::string& why) {
  c10::intrusive_ptr<c10::StorageImpl> storage = StorageWithoutMemory(bytes, device);
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(absl::StrCat(name, kNotInMemory, why));
  return storage;
}

torch::Tensor ViewInto(const c10::intrusive_ptr<c10::StorageImpl>& storage, int64_t offset, c10::IntArrayRef shape,
                       const torch::TensorOptions& options) {
  torch::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage),
                                                                torch::empty({0}, options).key_set(), options.dtype());
  view.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  view.unsafeGetTensorImpl()->set_storage_offset(offset);
  return view;
}

torch::Tensor WithoutMemory(c10::IntArrayRef shape, torch::Dtype dtype, c10::Device device, const std::string& name,
                            const std::string& why) {
  const auto bytes = static_cast<size_t>(c10::multiply_integers(shape)) * torch::elementSize(dtype);
  return ViewInto(RefusingStorage(bytes, device, name, why), 0, shape,
                  torch::TensorOptions().dtype(dtype).device(device));
}

bool HasMemory(const torch::Tensor& tensor) {
  // Without the checks, which throw for a refusing storage.
  return tensor.numel() == 0 || tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get() != nullptr;
}

}  // namespace distill
