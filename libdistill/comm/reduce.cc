#include "libdistill/comm/reduce.h"

#include "libdistill/comm/reduce_table.h"
#include "libdistill/core/check.h"

namespace distill {
namespace {

struct Choice {
  const char* name;
  const ReduceTable* table;
};

Choice Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("f16c")) {
    return {"avx512", &kReduceAvx512};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) return {"avx2", &kReduceAvx2};
#endif
  return {"plain", &kReducePlain};
}

const Choice& Chosen() {
  static const Choice choice = Choose();
  return choice;
}

size_t RowOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return 0;
    case ReduceOp::kMin:
      return 1;
    case ReduceOp::kMax:
      return 2;
    case ReduceOp::kProduct:
      return 3;
  }
  return 0;
}

}  // namespace

void Reduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
            int divisor) {
  ReduceToAll(&out, 1, sources, source_count, count, dtype, op, divisor);
}

void ReduceToAll(void* const* outs, int out_count, const void* const* sources, int source_count, int64_t count,
                 DType dtype, ReduceOp op, int divisor) {
  const ReduceLoop loop = Chosen().table->loops[static_cast<size_t>(dtype)][RowOf(op)];
  loop(outs, out_count, sources, source_count, count, divisor);
}

void WidenToFloat(const void* in, float* out, int64_t count, DType dtype) {
  DISTILL_CHECK(SizeOf(dtype) == 2, "only 16-bit types are widened");
  const auto widen = dtype == DType::kFloat16 ? Chosen().table->widen_half : Chosen().table->widen_bfloat;
  widen(static_cast<const uint16_t*>(in), out, count);
}

void NarrowFromFloat(const float* in, void* out, int64_t count, DType dtype) {
  DISTILL_CHECK(SizeOf(dtype) == 2, "only 16-bit types are narrowed");
  const auto narrow = dtype == DType::kFloat16 ? Chosen().table->narrow_half : Chosen().table->narrow_bfloat;
  narrow(in, static_cast<uint16_t*>(out), count);
}

const char* ReduceInstructionSet() { return Chosen().name; }

}  // namespace distill
