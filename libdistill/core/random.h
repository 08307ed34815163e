// A small random generator whose sequence is part of the contract: shuffles and samples must be the same on every
// machine and standard library. SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
#pragma once

#include <cstdint>

namespace distill {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // A generator for one purpose out of a seed and a number (an epoch, a rank), unrelated to its neighbours.
  Random(uint64_t seed, uint64_t stream) : state_(seed * 0x9e3779b97f4a7c15u ^ (stream + 1) * 0xd1342543de82ef95u) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform over [0, bound), without modulo bias (Lemire 2019). bound > 0.
  uint64_t Below(uint64_t bound) {
    for (;;) {
      const unsigned __int128 product = static_cast<unsigned __int128>(Next()) * bound;
      if (static_cast<uint64_t>(product) >= (-bound) % bound) return static_cast<uint64_t>(product >> 64);
    }
  }
  // Uniform over [0, 1), 53 bits.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace distill
