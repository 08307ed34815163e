#include "libdistill/loss/widening_sum.h"

#include "libdistill/core/vectors.h"

namespace distill {

void AddWidened(const uint16_t* parts, bool is_half, float* sum, int64_t count) {
  static const AddWidenedFunction chosen = DISTILL_FOR_THIS_CPU(kAddWidened);
  chosen(parts, is_half, sum, count);
}

}  // namespace distill
