#include "libdistill/loss/weight_schedule.h"

#include <string>

#include "absl/strings/match.h"
#include "libdistill/core/description.h"
#include "libdistill/loss/distillation_options.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("a weight goes from its value to its end, straight or by half a wave, and meets both exactly") {
  const WeightSchedule none, line{WeightShape::kLinear, 0.3}, wave{WeightShape::kCosine, 0.3};
  for (const double progress : {0.0, 0.25, 1.0}) CHECK(WeightAt(0.7, none, progress) == 0.7);
  for (const WeightSchedule& schedule : {line, wave}) {
    CHECK(WeightAt(0.7, schedule, 0) == 0.7);
    CHECK(WeightAt(0.7, schedule, 0.5) == Approx(0.5));
    CHECK(WeightAt(0.7, schedule, 1) == 0.3);
  }
  CHECK(WeightAt(0.7, line, 0.25) == Approx(0.6));
  CHECK(WeightAt(0.7, wave, 0.25) == Approx(0.7 - 0.4 * 0.14644660940672624));
}

TEST_CASE("the options at a step have the weights of that step and no schedules") {
  const DistillationOptions options{.temperature = 4,
                                    .alpha = 0.2,
                                    .divergence = Divergence::kSkewedKl,
                                    .alpha_schedule = {WeightShape::kLinear, 1.0},
                                    .temperature_schedule = {WeightShape::kLinear, 1.0},
                                    .skew_schedule = {WeightShape::kLinear, 0.5}};
  const DistillationOptions now = OptionsAt(options, 0.5);
  CHECK(now.alpha == Approx(0.6));
  CHECK(now.temperature == Approx(2.5));
  CHECK(now.skew.value() == Approx(0.3));  // from the default, 0.1
  CHECK(now.beta == 0);
  CHECK(OptionsAt(now, 1).alpha == now.alpha);
  CHECK(CheckOptions(now).ok());
  CHECK_FALSE(OptionsAt({.alpha = 1}, 0.5).skew.has_value());
}

TEST_CASE("schedules that make no sense are refused by name") {
  const auto refuses = [](const DistillationOptions& options, const std::string& part) {
    const std::string message(CheckOptions(options).message());
    INFO(message);
    CHECK(absl::StrContains(message, part));
  };
  refuses({.alpha_schedule = {WeightShape::kLinear, {}}}, "alpha_schedule: linear needs alpha_end");
  refuses({.temperature_schedule = {WeightShape::kConstant, 2.0}}, "temperature_end without a schedule");
  refuses({.alpha_schedule = {WeightShape::kCosine, 1.5}}, "alpha_end");
  refuses({.temperature_schedule = {WeightShape::kCosine, 0.0}}, "temperature_end");
  refuses({.beta_schedule = {WeightShape::kLinear, 0.5}}, "beta_schedule: the divergence kl does not use it");
  refuses({.beta = 0.5, .beta_schedule = {WeightShape::kLinear, 1.0}}, "beta_end");
  refuses({.skew_schedule = {WeightShape::kLinear, 0.5}}, "skew_schedule: the divergence kl does not use it");
  refuses({.divergence = Divergence::kMse, .temperature_schedule = {WeightShape::kLinear, 1.0}},
          "temperature_schedule: the divergence mse does not use it");
  CHECK(CheckOptions(DistillationOptions{.beta = 0.1, .beta_schedule = {WeightShape::kLinear, 0.9}}).ok());
}

}  // namespace
}  // namespace distill
