#include "libdistill/loss/widening_sum.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/catch.h"

namespace distill {
namespace {

float Widened(uint16_t bits, bool is_half) {
  if (is_half) return std::ldexp(static_cast<float>(1024 + (bits & 0x3ff)), (bits >> 10) - 25);  // a normal number > 0
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

}  // namespace

TEST_CASE("narrow parts are added to float32 sums, each rounded once, at any count and place") {
  for (const bool is_half : {false, true}) {
    for (const int64_t count : {0, 1, 15, 16, 17, 1000, 1024, 1025, 3000}) {
      for (const int64_t offset : {0, 1, 3}) {
        std::vector<uint16_t> parts(static_cast<size_t>(count + offset));
        std::vector<float> sums(parts.size()), expected;
        for (size_t i = 0; i < parts.size(); ++i) {
          parts[i] = static_cast<uint16_t>(0x3c00 + 977 * i % 0x0400);
          sums[i] = 1.0f / static_cast<float>(i + 3);
          const bool is_added = static_cast<int64_t>(i) >= offset;
          expected.push_back(is_added ? sums[i] + Widened(parts[i], is_half) : sums[i]);
        }
        AddWidened(parts.data() + offset, is_half, sums.data() + offset, count);
        INFO("count " << count << ", offset " << offset << ", half " << is_half);
        CHECK(sums == expected);
      }
    }
  }
}

}  // namespace distill
