#include "libdistill/nn/layer_sweep.h"

#include "libdistill/core/check.h"
#include "libdistill/core/vectors.h"
#include "libdistill/nn/layer_sweep_table.h"

namespace distill {
namespace {

const LayerSweeps& For(DType dtype) {
  static const LayerSweeps& chosen = DISTILL_FOR_THIS_CPU(kLayerSweeps);
  DISTILL_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16, "states are float32 or bfloat16 here");
  return chosen;
}

}  // namespace

void SweepNorm(const NormRows& rows, int64_t begin, int64_t end) { For(rows.dtype).norm(rows, begin, end); }

void SweepNormGradient(const NormRows& rows, int64_t begin, int64_t end) {
  For(rows.dtype).norm_gradient(rows, begin, end);
}

void SweepGated(const GatedElements& elements, int64_t begin, int64_t end) {
  For(elements.dtype).gated(elements, begin, end);
}

void SweepGatedGradient(const GatedElements& elements, int64_t begin, int64_t end) {
  For(elements.dtype).gated_gradient(elements, begin, end);
}

void SweepTurn(const TurnedRows& rows, int64_t begin, int64_t end) { For(rows.dtype).turn(rows, begin, end); }

}  // namespace distill
