// What matrix products take of memory for a while, which a plan of memory has to count.
#pragma once

#include <cstdint>
#include <functional>

#include <c10/core/ScalarType.h>

namespace distill {

// Bytes that a matrix product [rows, in] x [in, out] takes for a while beside its operands and its result.
using ProductScratch = std::function<int64_t(int64_t rows, int64_t in, int64_t out)>;

// That of LibTorch's products of this type on this machine's CPU, found by making some: there are float32 copies of
// whole results (bfloat16 on AVX-512 without instructions for it), blocks that a kernel packs (with them), or nothing.
// Products are made once for each shape, of up to 2048 rows and columns.
ProductScratch ScratchOnCpu(c10::ScalarType dtype);

}  // namespace distill
