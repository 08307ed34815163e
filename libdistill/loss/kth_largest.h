// The k-th largest of a row's logits: for loops that are compiled for several kinds of CPU (sweep_loops.cc), and for
// nothing else. Everything is in an unnamed namespace, as in core/vector_math.h.
//
// The k largest so far are kept in a heap whose first is the smallest of them. Of a row of V in random order about
// k ln(V / k) get in; all others cost a comparison, by vectors.
#pragma once

#include <cmath>
#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/loss/divergence.h"

namespace distill {
namespace {

class KthLargest {
 public:
  explicit KthLargest(int64_t k) : k_(k) {}

  void Add(const float* values, int64_t count) {
    constexpr int64_t kStride = 64;
    for (int64_t first = 0; first < count; first += kStride) {
      const int64_t size = Smaller(kStride, count - first);
      const float largest = Largest(values + first, size);
      if (largest > largest_) largest_ = largest;
      if (size_ == k_ && largest <= heap_[0]) continue;
      for (int64_t i = first; i < first + size; ++i) Push(values[i]);
    }
  }

  // Minus infinity where there were fewer.
  float value() const { return size_ < k_ ? -INFINITY : heap_[0]; }
  float largest() const { return largest_; }

 private:
  void Push(float value) {
    if (size_ < k_) {
      int64_t place = size_++;
      for (; place > 0 && heap_[(place - 1) / 2] > value; place = (place - 1) / 2) {
        heap_[place] = heap_[(place - 1) / 2];
      }
      heap_[place] = value;
    } else if (value > heap_[0]) {
      int64_t place = 0;
      for (int64_t child = 1; child < k_; child = 2 * place + 1) {
        if (child + 1 < k_ && heap_[child + 1] < heap_[child]) ++child;
        if (heap_[child] >= value) break;
        heap_[place] = heap_[child];
        place = child;
      }
      heap_[place] = value;
    }
  }

  const int64_t k_;
  int64_t size_ = 0;
  float largest_ = -INFINITY;
  float heap_[kMostTopK];
};

}  // namespace
}  // namespace distill
