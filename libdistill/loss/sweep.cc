#include "libdistill/loss/sweep.h"

#include "libdistill/core/check.h"
#include "libdistill/core/vectors.h"
#include "libdistill/loss/sweep_table.h"

namespace distill {
namespace {

SweepRowFunction Choose() {
#if defined(__x86_64__)
  switch (VectorsOfThisCpu()) {
    case Vectors::kAvx512:
      return kSweepAvx512;
    case Vectors::kAvx2:
      return kSweepAvx2;
    case Vectors::kPlain:
      break;
  }
#endif
  return kSweepPlain;
}

SweepRowFunction Chosen() {
  static const SweepRowFunction chosen = Choose();
  return chosen;
}

}  // namespace

SweepSums SweepRow(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options) {
  for (const DType dtype : {student.dtype, teacher.dtype}) {
    DISTILL_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16,
                  "products are float32, bfloat16 or float16");
  }
  return Chosen()(student, teacher, label, options);
}

const char* SweepInstructionSet() { return NameOf(VectorsOfThisCpu()); }

}  // namespace distill
