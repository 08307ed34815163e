#include "libdistill/gradients/reducer_plan.h"

#include "libdistill/gradients/gradient_plan.h"

namespace distill {

ShardPlan PlanInOrder(const std::vector<TrainedParameter>& parameters, const std::vector<int64_t>& order,
                      int64_t bucket_bytes) {
  const std::vector<int64_t> elements = ElementsOf(parameters);
  const std::vector<size_t> by_index(order.begin(), order.end());
  const GradientPlan plan =
      PlanBuckets(elements, order.empty() ? ReverseOrder(elements.size()) : by_index, bucket_bytes);
  return ShardPlan(elements, plan, /*shards=*/1);
}

ShardPlan ShardedPlan(const std::vector<TrainedParameter>& parameters, int shards, int64_t bucket_bytes,
                      const std::vector<int64_t>& groups) {
  const std::vector<int64_t> elements = ElementsOf(parameters);
  return ShardPlan(elements, PlanBucketsOfGroups(elements, ReverseOrder(elements.size()), groups, bucket_bytes),
                   shards);
}

}  // namespace distill
