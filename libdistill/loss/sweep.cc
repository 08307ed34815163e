#include "libdistill/loss/sweep.h"

#include "libdistill/core/check.h"
#include "libdistill/loss/sweep_table.h"

namespace distill {
namespace {

struct Choice {
  const char* name;
  SweepRowFunction row;
};

Choice Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return {"avx512", kSweepAvx512};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {"avx2", kSweepAvx2};
#endif
  return {"plain", kSweepPlain};
}

const Choice& Chosen() {
  static const Choice choice = Choose();
  return choice;
}

}  // namespace

SweepSums SweepRow(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options) {
  for (const DType dtype : {student.dtype, teacher.dtype}) {
    DISTILL_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16, "products are float32 or bfloat16");
  }
  return Chosen().row(student, teacher, label, options);
}

const char* SweepInstructionSet() { return Chosen().name; }

}  // namespace distill
