#include "bench/allreduce/sweep.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

namespace distill {
namespace {

// Cache-sized blocks, so that a rank's sum is written to all buffers while it is hot.
constexpr int64_t kBlock = 16 * 1024;

[[gnu::target_clones("avx512f", "avx2", "default"), gnu::optimize("O3")]] void Sweep(float* const* slices, int ranks,
                                                                                     int64_t begin, int64_t end) {
  float* __restrict__ first = slices[0];
  for (int r = 1; r < ranks; ++r) {
    const float* __restrict__ other = slices[r];
    for (int64_t i = begin; i < end; ++i) first[i] += other[i];
  }
  for (int r = 1; r < ranks; ++r) {
    float* __restrict__ other = slices[r];
    for (int64_t i = begin; i < end; ++i) other[i] = first[i];
  }
}

}  // namespace

double SweepSeconds(int64_t bytes, int ranks, int repeats) {
  const int64_t count = std::max<int64_t>(1, bytes / static_cast<int64_t>(sizeof(float)) / ranks);
  std::vector<std::vector<float>> buffers(ranks, std::vector<float>(count, 0.0f));
  std::vector<float*> slices;
  for (std::vector<float>& buffer : buffers) slices.push_back(buffer.data());
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats + 2; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      Sweep(slices.data(), ranks, begin, std::min(begin + kBlock, count));
    }
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace distill
