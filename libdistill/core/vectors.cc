#include "libdistill/core/vectors.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "libdistill/core/check.h"

namespace distill {
namespace {

constexpr std::array kKinds = {"plain", "avx2", "avx512", "avx512_bf16"};  // the first three are those of Vectors

// What DISTILL_CPU asks for; the last, which bounds nothing, without it.
int HighestAllowed() {
  const char* name = std::getenv("DISTILL_CPU");
  if (name == nullptr) return kKinds.size() - 1;
  const auto* found = std::find(kKinds.begin(), kKinds.end(), absl::string_view(name));
  DISTILL_CHECK(found != kKinds.end(), "DISTILL_CPU is plain, avx2, avx512 or avx512_bf16");
  return static_cast<int>(found - kKinds.begin());
}

Vectors WidestOfThisCpu() {
#if defined(__x86_64__)
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;  // not every compiler's __builtin_cpu_supports knows f16c
  const bool has_f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx2) return has_avx512 ? Vectors::kAvx512 : Vectors::kAvx2;
#endif
  return Vectors::kPlain;
}

// Of CPUID's leaf 7 (Intel's manual), zeros where there is none.
struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
Leaf Leaf7([[maybe_unused]] unsigned part) {
  Leaf leaf;
#if defined(__x86_64__)
  if (__get_cpuid_count(7, part, &leaf.a, &leaf.b, &leaf.c, &leaf.d) == 0) return {};
#endif
  return leaf;
}

bool MayMultiplyBf16() {
  return HighestAllowed() > static_cast<int>(Vectors::kAvx512) && VectorsOfThisCpu() == Vectors::kAvx512;
}

// Asked once, both: in a virtual machine the instruction takes microseconds.
bool HasAmxBf16() {
  constexpr unsigned kAmxBf16 = 1u << 22;
  static const bool has = MayMultiplyBf16() && (Leaf7(0).d & kAmxBf16) != 0;
  return has;
}

}  // namespace

Vectors VectorsOfThisCpu() {
  static const Vectors vectors = std::min(WidestOfThisCpu(), static_cast<Vectors>(HighestAllowed()));
  return vectors;
}

bool CpuMultipliesBf16() { return CpuHasBf16Vectors() || HasAmxBf16(); }

bool CpuHasBf16Vectors() {
  constexpr unsigned kAvx512Bf16 = 1u << 5;
  static const bool has = MayMultiplyBf16() && (Leaf7(1).a & kAvx512Bf16) != 0;
  return has;
}

const char* NameOf(Vectors vectors) { return kKinds[static_cast<size_t>(vectors)]; }

}  // namespace distill
