#include "libdistill/optim/rate_scaling.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace distill {
namespace {

// Four digits, as people write rates: "4e-4", "2.828e-4".
std::string RateText(double rate) {
  if (rate == 0) return "0";
  const int exponent = static_cast<int>(std::floor(std::log10(rate) + 1e-9));
  if (exponent > -3 && exponent < 3) return absl::StrFormat("%.4g", rate);
  return absl::StrCat(absl::StrFormat("%.4g", rate / std::pow(10.0, exponent)), "e", exponent);
}

}  // namespace

absl::StatusOr<ScaledRate> ScaleLearningRate(const RateScalingOptions& options, double learning_rate,
                                             int64_t rows_of_a_step) {
  if (options.scaling == RateScaling::kNone) return ScaledRate{learning_rate};
  if (rows_of_a_step <= 0) {
    return absl::InvalidArgumentError(
        "learning_rate_scaling needs steps of one number of rows, which max_tokens_per_batch does not give: leave one "
        "of them out");
  }
  const double ratio = static_cast<double>(rows_of_a_step) / static_cast<double>(options.base_global_batch);
  const double factor = options.scaling == RateScaling::kLinear ? ratio : std::sqrt(ratio);
  ScaledRate scaled{factor * learning_rate};
  scaled.text = absl::StrFormat(
      "learning rate %s x %.4g = %s, since the global batch is %d and learning_rate is for %d", RateText(learning_rate),
      factor, RateText(scaled.learning_rate), rows_of_a_step, options.base_global_batch);
  return scaled;
}

}  // namespace distill
