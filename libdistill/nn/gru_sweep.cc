#include "libdistill/nn/gru_sweep.h"

#include "libdistill/core/check.h"
#include "libdistill/core/vectors.h"

namespace distill {

const GruSweeps& GruSweepsFor(DType dtype) {
  static const GruSweeps &floats = DISTILL_FOR_THIS_CPU(kGruSweeps), &bfloats = DISTILL_FOR_THIS_CPU(kBFloatGruSweeps);
  DISTILL_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16, "states are float32 or bfloat16 here");
  return dtype == DType::kFloat32 ? floats : bfloats;
}

}  // namespace distill
