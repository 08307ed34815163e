// Compiled once for each kind of CPU.
#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/core/vectors.h"
#include "libdistill/loss/widening_sum.h"

namespace distill {
namespace {

constexpr int64_t kBlock = 1024;

void AddWidenedLoops(const uint16_t* parts, bool is_half, float* sum, int64_t count) {
  if (!is_half) {
    ForEach(count, [&](auto v, int64_t i) {
      using V = decltype(v);
      Store(sum + i, Load<V>(sum + i) + Load<V>(parts + i));
    });
    return;
  }
  alignas(64) float wide[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t here = Smaller(kBlock, count - first);
    WidenHalfs(parts + first, wide, here);
    for (int64_t i = 0; i < here; ++i) sum[first + i] += wide[i];
  }
}

}  // namespace

const AddWidenedFunction DISTILL_FOR_ITS_CPU(kAddWidened) = AddWidenedLoops;

}  // namespace distill
