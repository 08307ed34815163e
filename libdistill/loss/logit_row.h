// A token's logits, a block at a time, out of the products of a head, and their gradient back into them: for loops that
// are compiled for several kinds of CPU (sweep_loops.cc), and for nothing else. Everything is in an unnamed namespace,
// as in core/vector_math.h.
#pragma once

#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/loss/sweep.h"

namespace distill {
namespace {

constexpr int64_t kBlock = 1024;

class Row {
 public:
  Row(RowOfProducts row, const HeadOutput& head)
      : floats_(row.dtype == DType::kFloat32 ? static_cast<float*>(row.values) : nullptr),
        narrow_(row.dtype == DType::kFloat32 ? nullptr : static_cast<uint16_t*>(row.values)),
        is_half_(row.dtype == DType::kFloat16),
        head_(head),
        is_plain_(head.bias == nullptr && head.scale == 1 && head.softcap == 0) {}

  // Logits first .. first + count; in `buffer`, unless they lie ready.
  const float* Block(int64_t first, int64_t count, float* buffer) const {
    if (floats_ != nullptr && is_plain_) return floats_ + first;
    if (floats_ != nullptr) {
      for (int64_t i = 0; i < count; ++i) buffer[i] = floats_[first + i];
    } else if (is_half_) {
      WidenHalfs(narrow_ + first, buffer, count);
    } else {
      WidenBFloats(narrow_ + first, buffer, count);
    }
    if (is_plain_) return buffer;
    if (head_.bias != nullptr) {
      for (int64_t i = 0; i < count; ++i) buffer[i] += head_.bias[first + i];
    }
    for (int64_t i = 0; i < count; ++i) buffer[i] *= head_.scale;
    if (head_.softcap > 0) {
      const float cap = head_.softcap, inverse = 1 / cap;
      ForEach(count, [&](auto v, int64_t i) {
        Store(buffer + i, cap * TanhNearZero(inverse * Load<decltype(v)>(buffer + i)));
      });
    }
    return buffer;
  }

  // Puts `scale` times the gradient of the head's products in their place, out of that of the block's `logits`.
  void PutGradient(int64_t first, int64_t count, const float* logits, float scale, float* gradient) {
    if (head_.softcap > 0) {
      const float inverse = 1 / head_.softcap;
      for (int64_t i = 0; i < count; ++i) gradient[i] *= 1 - (logits[i] * inverse) * (logits[i] * inverse);
    }
    scale *= head_.scale;
    if (scale != 1) {
      for (int64_t i = 0; i < count; ++i) gradient[i] *= scale;
    }
    if (floats_ != nullptr) {
      for (int64_t i = 0; i < count; ++i) floats_[first + i] = gradient[i];
    } else if (is_half_) {
      NarrowHalfs(gradient, narrow_ + first, count);
    } else {
      NarrowBFloats(gradient, narrow_ + first, count);
    }
  }

 private:
  float* const floats_;
  uint16_t* const narrow_;  // bfloat16, or float16
  const bool is_half_;
  const HeadOutput& head_;
  const bool is_plain_;
};

}  // namespace
}  // namespace distill
