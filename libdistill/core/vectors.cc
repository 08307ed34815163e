#include "libdistill/core/vectors.h"

namespace distill {
namespace {

Vectors Look() {
#if defined(__x86_64__)
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx2) return has_avx512 ? Vectors::kAvx512 : Vectors::kAvx2;
#endif
  return Vectors::kPlain;
}

}  // namespace

Vectors VectorsOfThisCpu() {
  static const Vectors vectors = Look();
  return vectors;
}

const char* NameOf(Vectors vectors) {
  switch (vectors) {
    case Vectors::kAvx2:
      return "avx2";
    case Vectors::kAvx512:
      return "avx512";
    case Vectors::kPlain:
      break;
  }
  return "plain";
}

}  // namespace distill
