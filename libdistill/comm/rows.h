// Copies of rows that lie evenly spaced, on both sides of the copy. Internal to comm/.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "libdistill/comm/reduce.h"

namespace distill {

// `rows` rows of `row_bytes` bytes each, which begin `from_pitch` and `to_pitch` bytes after one another. No overlap.
struct Rows {
  char* to = nullptr;
  int64_t to_pitch = 0;
  const char* from = nullptr;
  int64_t from_pitch = 0;
  int64_t row_bytes = 0;
  int64_t rows = 0;
  // Whether it is one stretch of bytes on both sides.
  bool solid() const { return rows == 1 || (to_pitch == row_bytes && from_pitch == row_bytes); }
};

// In host memory, by this thread; DeviceMemory::CopyRows does the same in a GPU's.
inline void CopyRows(absl::Span<const Rows> copies) {
  for (const Rows& copy : copies) {
    if (copy.solid()) {
      CopyBytes(copy.to, copy.from, copy.rows * copy.row_bytes);
      continue;
    }
    for (int64_t row = 0; row < copy.rows; ++row) {
      CopyBytes(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, copy.row_bytes);
    }
  }
}

}  // namespace distill
