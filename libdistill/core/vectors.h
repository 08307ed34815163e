// Which of the loops that were compiled for several kinds of CPU (cmake/DistillRoom.cmake, distill_vector_loops) this
// one can run.
#pragma once

namespace distill {

enum class Vectors { kPlain, kAvx2, kAvx512 };

// The widest: kAvx2 with FMA and F16C, kAvx512 with BW, DQ and VL besides. Always kPlain on other machines than x86-64.
Vectors VectorsOfThisCpu();

// "plain", "avx2" or "avx512"
const char* NameOf(Vectors vectors);

}  // namespace distill
