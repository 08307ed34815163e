// How gradients travel between ranks.
#pragma once

#include "libdistill/core/describe.h"

namespace distill {

// kBf16: buckets are rounded to bfloat16 for the way, as by DDP's bf16_compress_hook, and half as many bytes travel.
// Over n ranks a sum of g_r is then off by at most ((1 + 2^-8)^n - 1) times the sum of |g_r|, of each part where a
// gradient comes in two.
enum class GradientCompression { kNone, kBf16 };
constexpr EnumNames<GradientCompression, 2> NamesOf(GradientCompression) {
  return {{{"none", GradientCompression::kNone}, {"bf16", GradientCompression::kBf16}}};
}

}  // namespace distill
