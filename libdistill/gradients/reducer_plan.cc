#include "libdistill/gradients/reducer_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/gradients/gradient_plan.h"

namespace distill {

absl::Status CheckReducerOptions(const std::vector<TrainedParameter>& parameters,
                                 const GradientReducerOptions& options) {
  if (parameters.empty()) return absl::InvalidArgumentError("a gradient reducer needs parameters");
  if (options.bucket_bytes <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("bucket_bytes: ", options.bucket_bytes, " is not above 0"));
  }
  if (options.zero_stage < 0 || options.zero_stage > 3) {
    return absl::InvalidArgumentError(absl::StrCat("zero_stage: ", options.zero_stage, " is not 0, 1, 2 or 3"));
  }
  if (options.rows_of >= 0 && (options.rows_of >= static_cast<int64_t>(parameters.size()) ||
                               parameters[static_cast<size_t>(options.rows_of)].tensor.dim() != 2)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows_of: ", options.rows_of, " is no matrix of the ", parameters.size(), " parameters"));
  }
  std::vector<int64_t> sorted = options.order;
  std::sort(sorted.begin(), sorted.end());
  bool permutes = sorted.empty() || sorted.size() == parameters.size();
  for (size_t i = 0; permutes && i < sorted.size(); ++i) permutes = sorted[i] == static_cast<int64_t>(i);
  if (permutes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the saved order of gradients is not one of this model's ",
                                                 parameters.size(), " parameters: is the checkpoint another model's?"));
}

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
  return ShardPlan(elements, PlanBuckets(elements, ReverseOrder(elements.size()), bucket_bytes, groups), shards);
}

}  // namespace distill
