#include "libdistill/tensor/saved_tensor.h"

#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/convert.h"

namespace distill {

torch::Dtype SavedType(torch::Dtype dtype) { return dtype == torch::kBool ? torch::kUInt8 : dtype; }

absl::StatusOr<TensorView> SavedAs(torch::Dtype dtype, c10::IntArrayRef shape) {
  DISTILL_ASSIGN_OR_RETURN(const DType saved, FromTorch(SavedType(dtype)));
  return TensorView{saved, shape.vec(), nullptr, c10::multiply_integers(shape) * static_cast<int64_t>(SizeOf(saved))};
}

absl::Status PassSaved(const torch::Tensor& tensor, ByteSink sink) {
  const torch::Tensor on_host = ToHost(tensor, SavedType(tensor.scalar_type()));
  return sink({static_cast<const char*>(on_host.const_data_ptr()), on_host.nbytes()});
}

}  // namespace distill
