#include "libdistill/gradients/gradient_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/tensor/convert.h"

namespace distill {
namespace {

constexpr double kFirstBucketBytes = 1 << 20;

GradientPlan CutAtShares(const std::vector<int64_t>& elements, const std::vector<size_t>& order, int64_t bucket_bytes,
                         double first_bucket_bytes) {
  const auto bytes_of = [&](size_t i) { return static_cast<double>(elements[i]) * sizeof(float); };
  double left = 0;  // that no bucket has yet
  for (const size_t i : order) left += bytes_of(i);
  double cut = std::min(first_bucket_bytes, static_cast<double>(bucket_bytes));  // where the next bucket is to end
  double share = 0, begin = 0, sum = 0;
  GradientPlan plan;
  std::vector<size_t> bucket;
  for (const size_t i : order) {
    if (!bucket.empty() && std::abs(sum - cut) < std::abs(sum + bytes_of(i) - cut)) {
      plan.buckets.push_back(std::exchange(bucket, {}));
      if (plan.buckets.size() == 1) {
        share = left / std::ceil(left / static_cast<double>(bucket_bytes));
        begin = sum;
      }
      cut = begin + std::ceil((sum - begin) / share + 0.5) * share;  // at least half a share further on
    }
    bucket.push_back(i);
    sum += bytes_of(i);
    left -= bytes_of(i);
  }
  if (!bucket.empty()) plan.buckets.push_back(std::move(bucket));
  return plan;
}

}  // namespace

std::vector<size_t> ReverseOrder(size_t parameters) {
  std::vector<size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

GradientPlan PlanBuckets(const std::vector<int64_t>& elements, const std::vector<size_t>& order, int64_t bucket_bytes,
                         const std::vector<int64_t>& groups) {
  const auto group_at = [&](size_t at) { return groups.empty() ? 0 : groups[order[at]]; };
  GradientPlan plan;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && group_at(end) == group_at(begin)) ++end;
    const std::vector<size_t> run(order.begin() + static_cast<int64_t>(begin),
                                  order.begin() + static_cast<int64_t>(end));
    const double first = begin == 0 ? kFirstBucketBytes : static_cast<double>(bucket_bytes);
    for (auto& bucket : CutAtShares(elements, run, bucket_bytes, first).buckets)
      plan.buckets.push_back(std::move(bucket));
  }
  return plan;
}

std::vector<std::pair<std::string, std::string>> FingerprintOf(const GradientPlan& plan,
                                                               const std::vector<TrainedParameter>& parameters) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const TrainedParameter& parameter : parameters) {
    fields.emplace_back(
        absl::StrCat("parameter ", parameter.name),
        absl::StrCat(ShapeToString(parameter.tensor.sizes()), " ", c10::toString(parameter.tensor.scalar_type())));
  }
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto append_name = [&](std::string* out, size_t i) { out->append(parameters[i].name); };
    fields.emplace_back(absl::StrCat("gradient bucket ", b), absl::StrJoin(plan.buckets[b], ", ", append_name));
  }
  return fields;
}

}  // namespace distill
