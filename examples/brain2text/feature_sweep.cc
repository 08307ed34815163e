#include "examples/brain2text/feature_sweep.h"

#include "libdistill/core/vectors.h"

namespace distill {

const FeatureSweeps& FeatureSweepsOfThisCpu() {
  static const FeatureSweeps& chosen = DISTILL_FOR_THIS_CPU(kFeatureSweeps);
  return chosen;
}

}  // namespace distill
