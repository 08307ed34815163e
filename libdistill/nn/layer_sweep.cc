#include "libdistill/nn/layer_sweep.h"

#include "libdistill/core/check.h"
#include "libdistill/core/vectors.h"

namespace distill {

const LayerSweeps& SweepsFor(DType dtype) {
  static const LayerSweeps& chosen = DISTILL_FOR_THIS_CPU(kLayerSweeps);
  DISTILL_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16, "states are float32 or bfloat16 here");
  return chosen;
}

}  // namespace distill
