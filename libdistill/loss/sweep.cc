#include "libdistill/loss/sweep.h"

#include "libdistill/core/check.h"
#include "libdistill/core/vectors.h"

namespace distill {

SweepSums SweepRow(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options) {
  for (const DType dtype : {student.dtype, teacher.dtype}) {
    DISTILL_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16,
                  "products are float32, bfloat16 or float16");
  }
  static const SweepRowFunction chosen = DISTILL_FOR_THIS_CPU(kSweep);
  return chosen(student, teacher, label, options);
}

}  // namespace distill
