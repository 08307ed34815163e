#include "libdistill/nn/row_products.h"

#include "libdistill/core/vectors.h"

namespace distill {
namespace {

const RowProductLoops* BFloatLoops() {
#if defined(__x86_64__)
  if (CpuHasBf16Vectors()) return &kBFloatRowProductsAvx512;
#endif
  return nullptr;
}

int64_t RoundedUp(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

}  // namespace

const RowProductLoops* RowProductLoopsFor(DType dtype) {
  if (dtype == DType::kBFloat16) return BFloatLoops();
  return dtype == DType::kFloat32 ? &DISTILL_FOR_THIS_CPU(kRowProducts) : nullptr;
}

int64_t PanelsOf(const RowProductLoops& loops, int64_t out) { return RoundedUp(out, loops.panel) / loops.panel; }

int64_t PackedElements(const RowProductLoops& loops, const MatrixView& matrix) {
  return RoundedUp(matrix.out, loops.panel) * RoundedUp(matrix.in, loops.per_step);
}

}  // namespace distill
