// What tests compare a row's sweep with: divergence, cross-entropy and gradient in float64, straight from the formulas
// of docs/losses.md; and the loops that this CPU can run.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/loss/sweep.h"

namespace distill::testing {

struct Expected {
  double divergence = 0, ce = 0;
  std::vector<double> gradient;
  std::vector<double> undecided;  // how far rounding may move each
};

// `tail`: the probability of what a teacher of top-k values does not name, which lies at minus infinity.
Expected Compute(const std::vector<float>& student, const std::vector<float>& teacher, size_t label,
                 const SweepOptions& o, double tail = 0);

// The greatest difference of gradients, over the greatest of them, or over `least` where all are smaller.
double Error(const std::vector<float>& actual, const Expected& expected, double least = 0.01);

std::vector<float> Random(int64_t size, double deviation, uint32_t seed);

struct Loops {
  const char* name;
  SweepRowFunction row;
};

// Those that this CPU can run; a test of the others would be ended by the first wide instruction.
std::vector<Loops> AllLoops();

}  // namespace distill::testing
