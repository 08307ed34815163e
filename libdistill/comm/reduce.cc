#include "libdistill/comm/reduce.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "libdistill/comm/reduce_table.h"
#include "libdistill/core/check.h"
#include "libdistill/core/vectors.h"

namespace distill {
namespace {

const ReduceTable& Chosen() {
  static const ReduceTable& chosen = DISTILL_FOR_THIS_CPU(kReduce);
  return chosen;
}

size_t RowOf(ReduceOp op) {
  constexpr size_t kRows[] = {0, 0, 1, 2, 3};  // of a sum, an average, a minimum, a maximum, a product
  return kRows[static_cast<size_t>(op)];
}

}  // namespace

void Reduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
            int divisor, Stores stores) {
  ReduceToAll(&out, 1, sources, source_count, count, dtype, op, divisor, stores == Stores::kPastCaches ? 1 : 0);
}

void ReduceToAll(void* const* outs, int out_count, const void* const* sources, int source_count, int64_t count,
                 DType dtype, ReduceOp op, int divisor, int past_caches) {
  const ReduceLoop loop = Chosen().loops[static_cast<size_t>(dtype)][RowOf(op)];
  loop(outs, out_count, sources, source_count, count, divisor, past_caches);
}

void CopyBytes(void* to, const void* from, int64_t bytes, Stores stores) {
  constexpr int64_t kShort = 2048;  // memcpy has no trouble with these
  if (bytes <= kShort) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  Chosen().copy(from, to, bytes, stores == Stores::kPastCaches);
}

Stores StoresFor(int64_t touched_bytes) {
  static const int64_t cache_bytes = [] {
    constexpr int64_t kUsual = 32 << 20;  // where the machine does not say
    const long known = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return known > 0 ? std::min<int64_t>(known, kUsual) : kUsual;
  }();
  return touched_bytes > cache_bytes ? Stores::kPastCaches : Stores::kCached;
}

void WidenToFloat(const void* in, float* out, int64_t count, DType dtype) {
  DISTILL_CHECK(SizeOf(dtype) == 2, "only 16-bit types are widened");
  const auto widen = dtype == DType::kFloat16 ? Chosen().widen_half : Chosen().widen_bfloat;
  widen(static_cast<const uint16_t*>(in), out, count);
}

void NarrowFromFloat(const float* in, void* out, int64_t count, DType dtype) {
  DISTILL_CHECK(SizeOf(dtype) == 2, "only 16-bit types are narrowed");
  const auto narrow = dtype == DType::kFloat16 ? Chosen().narrow_half : Chosen().narrow_bfloat;
  narrow(in, static_cast<uint16_t*>(out), count);
}

}  // namespace distill
