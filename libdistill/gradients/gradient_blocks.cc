#include "libdistill/gradients/gradient_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace distill {
namespace {

int64_t LengthOf(int64_t block, int64_t count) { return std::min(kGradientBlock, count - block * kGradientBlock); }

bool AnyBit(const float* values, int64_t count) {
  uint32_t any = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, values + i, sizeof(bits));
    any |= bits;
  }
  return any != 0;
}

// Most blocks with values show that in their first cache line.
bool HoldsValues(const float* block, int64_t length) {
  constexpr int64_t kLine = 16;
  return AnyBit(block, std::min(kLine, length)) || (length > kLine && AnyBit(block + kLine, length - kLine));
}

size_t SizeOf(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

}  // namespace

std::vector<uint8_t> MarkBlocks(const float* values, int64_t count) {
  const int64_t blocks = (count + kGradientBlock - 1) / kGradientBlock;
  std::vector<uint8_t> marks(static_cast<size_t>(blocks) + 1);
  int64_t marked = 0;
  for (int64_t b = 0; b < blocks && 2 * marked <= blocks; ++b) {
    if (!HoldsValues(values + b * kGradientBlock, LengthOf(b, count))) continue;
    marks[static_cast<size_t>(b)] = 1;
    ++marked;
  }
  marks.back() = 2 * marked > blocks ? 1 : 0;
  return marks;
}

bool WorthPacking(const std::vector<uint8_t>& marks) {
  const auto marked = std::count(marks.begin(), marks.end() - 1, 1);
  return marks.back() == 0 && 2 * marked < static_cast<std::ptrdiff_t>(marks.size()) - 1;
}

int64_t PackBlocks(float* values, int64_t count, const std::vector<uint8_t>& marks) {
  int64_t packed = 0;
  for (int64_t b = 0; b * kGradientBlock < count; ++b) {
    if (marks[static_cast<size_t>(b)] == 0) continue;
    const int64_t length = LengthOf(b, count);
    if (packed != b * kGradientBlock) std::memcpy(values + packed, values + b * kGradientBlock, SizeOf(length));
    packed += length;
  }
  return packed;
}

void SpreadBlocks(float* values, int64_t count, const std::vector<uint8_t>& marks) {
  int64_t left = std::count(marks.begin(), marks.end() - 1, 1);
  const int64_t front = left;  // blocks there that held others, or nothing of use
  for (int64_t b = static_cast<int64_t>(marks.size()) - 2; b >= 0; --b) {
    float* const block = values + b * kGradientBlock;
    if (marks[static_cast<size_t>(b)] != 0) {
      if (--left != b) std::memcpy(block, values + left * kGradientBlock, SizeOf(LengthOf(b, count)));
    } else if (b < front) {
      std::memset(block, 0, SizeOf(LengthOf(b, count)));
    }
  }
}

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
double
SumOfSquares(const float* values, int64_t count) {
  constexpr int64_t kLanes = 16;  // independent sums, which the compiler keeps in vectors
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (int64_t lane = 0; i + lane < count; ++lane) {
    const double value = values[i + lane];
    lanes[lane] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace distill
