// Which of the loops that were compiled for several kinds of CPU (cmake/DistillRoom.cmake, distill_vector_loops) this
// one can run. DISTILL_CPU=plain, avx2, avx512 (without instructions for bfloat16) or avx512_bf16 makes it a kind that
// is lower than it is, as ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA do for LibTorch; it never makes it a higher one.
// Another value ends the process.
#pragma once

namespace distill {

enum class Vectors { kPlain, kAvx2, kAvx512 };

// The widest: kAvx2 with FMA and F16C, kAvx512 with BW, DQ and VL besides. Always kPlain on other machines than x86-64.
Vectors VectorsOfThisCpu();

// Whether it multiplies matrices of bfloat16 by instructions of its own (AVX512-BF16, AMX).
bool CpuMultipliesBf16();

// Whether it has AVX512-BF16, of those.
bool CpuHasBf16Vectors();

// "plain", "avx2" or "avx512"
const char* NameOf(Vectors vectors);

// What this CPU runs, of the same thing compiled for each kind.
template <typename T>
const T& ForThisCpu(const T& plain, const T& avx2, const T& avx512) {
  switch (VectorsOfThisCpu()) {
    case Vectors::kAvx512:
      return avx512;
    case Vectors::kAvx2:
      return avx2;
    case Vectors::kPlain:
      break;
  }
  return plain;
}

// NAMEPlain, NAMEAvx2 or NAMEAvx512, in a source that distill_vector_loops compiles once for each.
#define DISTILL_PASTE_NAMES(a, b) a##b
#define DISTILL_PASTE(a, b) DISTILL_PASTE_NAMES(a, b)
#define DISTILL_FOR_ITS_CPU(NAME) DISTILL_PASTE(NAME, DISTILL_VECTORS)

// Of NAMEPlain, NAMEAvx2 and NAMEAvx512; there is but the first where distill_vector_loops compiles no other.
#if defined(__x86_64__)
#define DISTILL_FOR_THIS_CPU(NAME) ::distill::ForThisCpu(NAME##Plain, NAME##Avx2, NAME##Avx512)
#else
#define DISTILL_FOR_THIS_CPU(NAME) (NAME##Plain)
#endif

}  // namespace distill
