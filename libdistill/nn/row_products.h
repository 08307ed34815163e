// Products of a few rows with one matrix, again and again, on CPUs: y = x W^T, as a recurrence has them, frame by
// frame. A library's product lays W out anew on each call, which takes as long as the product of so few rows; here that
// is done once. float32, or bfloat16 with sums in float32 by the instructions of AVX512-BF16. What they stand for is
// at::matmul, with which tests compare. No LibTorch here; inside nn/ only.
//
//   const RowProductLoops* loops = RowProductLoopsFor(dtype);
//   loops->pack(matrix, packed, 0, PanelsOf(*loops, matrix.out));  // of PackedElements(*loops, matrix)
//   for (each x) loops->multiply(matrix, packed, {.x = x, .y = y, .rows = rows}, 0, PanelsOf(*loops, matrix.out));
//
// Functions of panels do those from `begin` to before `end`; parts that do not overlap can go to different threads. The
// same bits on every call, however rows and panels are dealt out.
#pragma once

#include <cstdint>

#include "libdistill/core/dtype.h"

namespace distill {

// W [out, in], of which W[o][i] is weight[o * out_stride + i * in_stride]; one of the strides is 1.
struct MatrixView {
  const void* weight = nullptr;
  int64_t out = 0;
  int64_t in = 0;
  int64_t out_stride = 0;
  int64_t in_stride = 1;
};

// Of N = rows: y = x W^T + bias, or y += x W^T.
struct RowProduct {
  const void* x = nullptr;      // [N, in], of the matrix's type
  float* y = nullptr;           // [N, out]
  int64_t rows = 0;             // N
  const float* bias = nullptr;  // [out], or null: none
  bool adds = false;            // to what y is; then without a bias
};

// The loops for one kind of CPU and one type.
struct RowProductLoops {
  int64_t panel;     // columns of W^T that are computed at once; the last ones are filled up with zeros
  int64_t per_step;  // inputs that one instruction multiplies; the last ones are filled up with zeros
  void (*pack)(const MatrixView& matrix, void* packed, int64_t begin, int64_t end);
  void (*multiply)(const MatrixView& matrix, const void* packed, const RowProduct& product, int64_t begin, int64_t end);
};

// Null where this CPU has no such instructions; all have float32's.
const RowProductLoops* RowProductLoopsFor(DType dtype);

// How many panels there are, and elements that the packed matrix takes, of the matrix's type.
int64_t PanelsOf(const RowProductLoops& loops, int64_t out);
int64_t PackedElements(const RowProductLoops& loops, const MatrixView& matrix);

// Inside row_products*.cc only, which see no types of other headers: see core/vector_math.h.
extern const RowProductLoops kRowProductsPlain, kRowProductsAvx2, kRowProductsAvx512, kBFloatRowProductsAvx512;

}  // namespace distill
