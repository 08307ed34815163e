#include "libdistill/nn/packed_matrix.h"

#include "libdistill/nn/row_products.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

using torch::Tensor;

const RowProductLoops* LoopsFor(const Tensor& weight) {
  if (!weight.is_cpu() || !weight.is_contiguous()) return nullptr;
  if (weight.scalar_type() == torch::kFloat32) return RowProductLoopsFor(DType::kFloat32);
  return weight.scalar_type() == torch::kBFloat16 ? RowProductLoopsFor(DType::kBFloat16) : nullptr;
}

}  // namespace

std::shared_ptr<const PackedMatrix> PackedMatrix::Of(const Tensor& weight) {
  const RowProductLoops* loops = LoopsFor(weight);
  if (loops == nullptr) return nullptr;
  const std::shared_ptr<PackedMatrix> made(new PackedMatrix());
  made->loops_ = loops, made->out_ = weight.size(0), made->in_ = weight.size(1);
  const MatrixView view{weight.const_data_ptr(), made->out_, made->in_, made->in_, 1};
  made->packed_ = at::empty({PackedElements(*loops, view)}, weight.options().requires_grad(false));
  ParallelFor(PanelsOf(*loops, made->out_), 1,
              [&](int64_t begin, int64_t end) { loops->pack(view, made->packed_.mutable_data_ptr(), begin, end); });
  return made;
}

Tensor PackedMatrix::Multiply(const Tensor& x) const {
  const Tensor rows = x.contiguous();
  TORCH_CHECK(rows.dim() == 2 && rows.size(1) == in_ && rows.scalar_type() == packed_.scalar_type(), "rows of ",
              rows.sizes(), " and ", rows.scalar_type(), " for a matrix of ", in_, " and ", packed_.scalar_type());
  const Tensor result = at::empty({rows.size(0), out_}, rows.options().dtype(torch::kFloat32));
  const MatrixView view{nullptr, out_, in_, in_, 1};
  const RowProduct product{rows.const_data_ptr(), result.mutable_data_ptr<float>(), rows.size(0)};
  ParallelFor(PanelsOf(*loops_, out_), 1, [&](int64_t begin, int64_t end) {
    loops_->multiply(view, packed_.const_data_ptr(), product, begin, end);
  });
  return result;
}

}  // namespace distill
