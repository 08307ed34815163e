#include "libdistill/loss/head_products.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/loss/head_products_cublas.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {
namespace {

using torch::Tensor;

int CudaIndex(const Tensor& tensor) { return tensor.is_cuda() ? tensor.get_device() : -1; }

// A dimension of one element has any stride.
NarrowMatrix MatrixOf(const Tensor& tensor) {
  const bool is_in_rows = tensor.stride(1) == 1 || tensor.size(1) == 1;
  TORCH_CHECK(is_in_rows || tensor.stride(0) == 1 || tensor.size(0) == 1, "a factor of a head's product has strides ",
              tensor.strides());
  const int along = is_in_rows ? 1 : 0;
  return {.values = tensor.const_data_ptr(),
          .stride = std::max(tensor.stride(1 - along), tensor.size(along)),
          .is_transposed = !is_in_rows};
}

// As where there are no wide products: LibTorch's, in the narrow type, which takes any shape and alignment. To promise
// cuBLAS other alignments than the matrices have could let it read beside them.
void MultiplyNarrow(const Tensor& a, const Tensor& b, bool adds, const Tensor& sum, const absl::Status& why) {
  static std::once_flag once;
  std::call_once(once, [&] {
    LogWarning(absl::StrCat("a product of head and loss is LibTorch's, in more memory and time, and rounded: ",
                            why.message()));
  });
  const Tensor product = at::mm(a, b);
  adds ? sum.add_(product) : sum.copy_(product);
}

}  // namespace

bool HasWideProducts(const Tensor& like) {
  const auto dtype = FromTorch(like.scalar_type());
  return dtype.ok() && SizeOf(*dtype) == 2 && CheckWideProducts(*dtype, CudaIndex(like)).ok();
}

void WideMultiply(const Tensor& a, const Tensor& b, bool adds, const Tensor& sum) {
  const c10::Device device = a.device();
  const c10::DeviceGuard guard(device);
  // From an allocator that gives it to others only in the order of the stream.
  const Tensor workspace = torch::empty({kProductWorkspaceBytes}, a.options().dtype(torch::kUInt8));
  void* const stream = device.is_cpu() ? nullptr : CurrentStream(device).native_handle();
  const absl::Status status = EnqueueWideProduct({.dtype = *FromTorch(a.scalar_type()),
                                                  .rows = a.size(0),
                                                  .columns = b.size(1),
                                                  .depth = a.size(1),
                                                  .a = MatrixOf(a),
                                                  .b = MatrixOf(b),
                                                  .out = sum.data_ptr<float>(),
                                                  .out_stride = std::max(sum.stride(0), sum.size(1)),
                                                  .adds = adds,
                                                  .workspace = workspace.data_ptr()},
                                                 CudaIndex(a), stream);
  if (absl::IsUnimplemented(status)) return MultiplyNarrow(a, b, adds, sum, status);
  TORCH_CHECK(status.ok(), "the head's product on ", device, " failed: ", std::string(status.message()));
}

}  // namespace distill
