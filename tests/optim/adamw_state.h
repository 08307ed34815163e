// Runs of random state for the optimizer's tests.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "libdistill/optim/adamw_sweep.h"

namespace distill::testing {

// One run's memory; `offset` elements before it make it start at any alignment of a float.
struct AdamWState {
  std::vector<float> master, exp_avg, exp_avg_sq, gradient;
  std::vector<uint16_t> working;
  AdamWRun run;

  AdamWState(int64_t count, uint32_t seed, int64_t offset = 0, bool has_working = true,
             DType working_type = DType::kBFloat16) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (std::vector<float>* values : {&master, &exp_avg, &exp_avg_sq, &gradient}) {
      for (int64_t i = 0; i < count + offset; ++i) values->push_back(normal(random));
    }
    for (float& value : exp_avg_sq) value *= value;
    working.resize(static_cast<size_t>(count + offset));
    run.master = master.data() + offset;
    run.exp_avg = exp_avg.data() + offset;
    run.exp_avg_sq = exp_avg_sq.data() + offset;
    run.gradient = gradient.data() + offset;
    if (has_working) run.working = working.data() + offset;
    run.working_type = working_type;
    run.count = count;
    run.decays = seed % 2 == 0;
  }
  AdamWState(const AdamWState&) = delete;
  AdamWState& operator=(const AdamWState&) = delete;

  bool SameAs(const AdamWState& other) const {
    return master == other.master && exp_avg == other.exp_avg && exp_avg_sq == other.exp_avg_sq &&
           working == other.working;
  }
};

}  // namespace distill::testing
