// The average of integers as comm/communicator.h defines it, written independently of the library's loops.
#pragma once

#include <cstdint>
#include <cstring>

#include "libdistill/core/dtype.h"

namespace distill::testing {

// One element of an integer type, and as all 64 bits of its value.
template <typename T>
int64_t LoadAs(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return static_cast<int64_t>(value);
}
inline int64_t LoadInteger(const char* at, DType dtype) {
  return dtype == DType::kUInt8   ? LoadAs<uint8_t>(at)
         : dtype == DType::kInt32 ? LoadAs<int32_t>(at)
                                  : LoadAs<int64_t>(at);
}

// `sum`: of all ranks' values, modulo 2^64. It wraps in the type, then is divided, truncated towards zero.
inline int64_t AverageOf(uint64_t sum, int ranks, DType dtype) {
  char bytes[sizeof(sum)];
  std::memcpy(bytes, &sum, sizeof(sum));  // little endian: the type's bits come first
  return LoadInteger(bytes, dtype) / ranks;
}

}  // namespace distill::testing
