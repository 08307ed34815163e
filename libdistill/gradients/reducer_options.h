// How a GradientReducer is to work.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/gradients/compression.h"

namespace distill {

struct GradientReducerOptions {
  int64_t bucket_bytes = 25 << 20;
  GradientCompression compression = GradientCompression::kNone;
  // Of ZeRO (gradient_buckets.h): 0: every rank has all gradients; 1: each has the sums of its slices; 2: and keeps
  // nothing else; 3 as 2, for sharded parameters too. From 1 on the order of gradients is the reverse of
  // the parameters', and is not observed.
  int zero_stage = 0;
  // From stage 1 on: the group of each parameter, if buckets must not mix them (gradient_plan.h); empty: one group.
  std::vector<int64_t> groups = {};
  // The order() of the run that this one resumes: bits that depend on the plan then stay the same. Empty: to be
  // observed.
  std::vector<int64_t> order = {};
  // Whether BorrowSum may give memory: each loss that borrows goes to its backward pass, once, as it is. One that
  // was scaled or thrown away would spoil the sum.
  bool losses_are_final = false;
  // The parameter, [rows, width], of which AddRows takes a part of the gradient; none: -1. In stage 0 on CPUs:
  // elsewhere TakesRows says that it does not.
  int64_t rows_of = -1;
};

}  // namespace distill
