// How far a student's distribution is from its teacher's. Plain C++17: nvcc reads it too.
#pragma once

#include <cstdint>

namespace distill {

// docs/losses.md has the formulas.
enum class Divergence {
  kNone,  // there is no teacher
  kForwardKl,
  kReverseKl,
  kJensenShannon,
  kTopKKl,
  kSkewedKl,
  kSkewedReverseKl,
  kTotalVariation,
  kMse
};

// The most tokens that kTopKKl compares one by one: what a sweep has room for.
constexpr int64_t kMostTopK = 1024;

}  // namespace distill
