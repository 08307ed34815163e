#include "libdistill/nn/gru_sweep.h"

#include "libdistill/core/vectors.h"

namespace distill {

const GruSweeps& GruSweepsOfThisCpu() {
  static const GruSweeps& chosen = DISTILL_FOR_THIS_CPU(kGruSweeps);
  return chosen;
}

}  // namespace distill
