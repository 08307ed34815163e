#include "bench/allreduce/sweep.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "libdistill/comm/reduce.h"

namespace distill {
namespace {

// Small blocks, so that a rank's sum is written to all buffers while it is in the nearest cache.
constexpr int64_t kBlock = 1024;

[[gnu::target_clones("avx512f", "avx2", "default"), gnu::optimize("O3")]] void Sweep(float* const* slices, int ranks,
                                                                                     int64_t begin, int64_t end) {
  float* __restrict__ first = slices[0];
  for (int r = 1; r + 1 < ranks; ++r) {
    const float* __restrict__ other = slices[r];
    for (int64_t i = begin; i < end; ++i) first[i] += other[i];
  }
  float* __restrict__ last = slices[ranks - 1];
  for (int64_t i = begin; i < end; ++i) first[i] = last[i] = first[i] + last[i];
  for (int r = 1; r + 1 < ranks; ++r) {
    float* __restrict__ other = slices[r];
    for (int64_t i = begin; i < end; ++i) other[i] = first[i];
  }
}

// In huge pages where the kernel gives them, as registered memory is.
class Pages {
 public:
  explicit Pages(int64_t bytes) : bytes_(static_cast<size_t>((bytes + kHuge - 1) / kHuge * kHuge)) {
    data_.reset(static_cast<char*>(std::aligned_alloc(kHuge, bytes_)));
    madvise(data_.get(), bytes_, MADV_HUGEPAGE);
    std::memset(data_.get(), 0, bytes_);
  }
  char* data() const { return data_.get(); }
  float* floats() const { return reinterpret_cast<float*>(data_.get()); }

 private:
  static constexpr int64_t kHuge = 2 << 20;
  size_t bytes_;
  std::unique_ptr<char, decltype(&std::free)> data_{nullptr, &std::free};
};

// The best; `prepare` is not timed.
template <typename Prepare, typename Work>
double Seconds(int repeats, Prepare prepare, Work work) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    prepare();
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return *std::min_element(times.begin(), times.end());
}

}  // namespace

double SweepSeconds(int64_t bytes, int ranks, int repeats) {
  const int64_t count = std::max<int64_t>(1, bytes / static_cast<int64_t>(sizeof(float)) / ranks);
  std::vector<Pages> buffers;
  std::vector<float*> slices;
  for (int r = 0; r < ranks; ++r) {
    buffers.emplace_back(count * static_cast<int64_t>(sizeof(float)));
    slices.push_back(buffers.back().floats());
  }
  const auto write = [&] {  // as the collective finds them: new data, some of them still in the cache
    for (float* slice : slices) std::fill(slice, slice + count, 0.0f);
  };
  return Seconds(repeats, write, [&] {
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      Sweep(slices.data(), ranks, begin, std::min(begin + kBlock, count));
    }
  });
}

double CopyBandwidth() {
  constexpr int64_t kBytes = 256 << 20;  // no cache holds it
  const Pages from(kBytes), to(kBytes);
  const auto copy = [&] { CopyBytes(to.data(), from.data(), kBytes, Stores::kPastCaches); };
  return static_cast<double>(kBytes) / Seconds(
                                           5, [] {}, copy);
}

}  // namespace distill
