#include "libdistill/train/gradient_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "libdistill/tensor/convert.h"

namespace distill {
namespace {

constexpr double kFirstBucketBytes = 1 << 20;

}  // namespace

std::vector<size_t> ReverseOrder(size_t parameters) {
  std::vector<size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

GradientPlan PlanBuckets(const std::vector<int64_t>& elements, const std::vector<size_t>& order, int64_t bucket_bytes) {
  const auto bytes_of = [&](size_t i) { return static_cast<double>(elements[i]) * sizeof(float); };
  double left = 0;  // that no bucket has yet
  for (const size_t i : order) left += bytes_of(i);
  double cut = std::min(kFirstBucketBytes, static_cast<double>(bucket_bytes));  // where the next bucket is to end
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

std::vector<std::pair<std::string, std::string>> FingerprintOf(const GradientPlan& plan,
                                                               const std::vector<TrainedParameter>& parameters) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const TrainedParameter& parameter : parameters) {
    fields.emplace_back(
        absl::StrCat("parameter ", parameter.name),
        absl::StrCat(ShapeToString(parameter.tensor.sizes()), " ", c10::toString(parameter.tensor.scalar_type())));
  }
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    std::string names;
    for (const size_t i : plan.buckets[b]) absl::StrAppend(&names, names.empty() ? "" : ", ", parameters[i].name);
    fields.emplace_back(absl::StrCat("gradient bucket ", b), names);
  }
  return fields;
}

}  // namespace distill
