#include "libdistill/nn/attention_sweep.h"

#include "libdistill/core/check.h"
#include "libdistill/core/vectors.h"

namespace distill {

const AttentionSweeps& AttentionSweepsFor(DType dtype) {
  static const AttentionSweeps& chosen = DISTILL_FOR_THIS_CPU(kAttentionSweeps);
  DISTILL_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16, "scores are float32 or bfloat16 here");
  return chosen;
}

}  // namespace distill
