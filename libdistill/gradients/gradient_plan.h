// Which gradients travel together: a pure function of the parameters' sizes, their order and the size of a bucket, so
// that all ranks have the same plan.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/gradients/parameters.h"

namespace distill {

struct GradientPlan {
  // Each bucket's parameters by their index, in the order in which their gradients lie in it. Buckets leave in order.
  std::vector<std::vector<size_t>> buckets;
};

// The last parameter first: about the order in which a backward pass ends up with their gradients.
std::vector<size_t> ReverseOrder(size_t parameters);

// Cuts the parameters, in `order`, into buckets of nearly the same size, `bucket_bytes` or a little less: a cut is
// where the sizes so far come nearest to a multiple of an even share. A parameter is never cut, so one that is larger
// than a bucket makes a larger bucket. The first bucket has about 1 MiB, if that is less, so that communication starts
// early. `elements`: of each parameter, float32 on the way.
//
// `groups`: of each parameter; a bucket holds parameters of one group alone. Those of a group stand together in
// `order`, or make several runs of buckets. Empty: all are of one.
GradientPlan PlanBuckets(const std::vector<int64_t>& elements, const std::vector<size_t>& order, int64_t bucket_bytes,
                         const std::vector<int64_t>& groups = {});

// What must be the same on every rank: name, shape and type of each parameter, and what each bucket holds.
std::vector<std::pair<std::string, std::string>> FingerprintOf(const GradientPlan& plan,
                                                               const std::vector<TrainedParameter>& parameters);

}  // namespace distill
