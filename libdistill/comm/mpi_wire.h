// How values travel through MPI, which cannot add 16-bit floats: as float32. Internal to comm/.
#pragma once

#include <cstdint>
#include <cstring>

#include "libdistill/comm/reduce.h"
#include "libdistill/core/dtype.h"

namespace distill {

// The type that MPI adds for us.
inline DType WireType(DType dtype) { return SizeOf(dtype) == 2 ? DType::kFloat32 : dtype; }

// `count` values of `dtype` of the caller's buffer into one of MPI's, which holds WireType(dtype).
inline void ToWire(const char* in, char* out, int64_t count, DType dtype) {
  if (SizeOf(dtype) == 2) return WidenToFloat(in, reinterpret_cast<float*>(out), count, dtype);
  std::memcpy(out, in, static_cast<size_t>(count * SizeOf(dtype)));
}

// And back, rounded once.
inline void FromWire(const char* in, char* out, int64_t count, DType dtype) {
  if (SizeOf(dtype) == 2) return NarrowFromFloat(reinterpret_cast<const float*>(in), out, count, dtype);
  std::memcpy(out, in, static_cast<size_t>(count * SizeOf(dtype)));
}

}  // namespace distill
