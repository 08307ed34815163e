#include "libdistill/optim/rate_scaling.h"

#include "absl/strings/match.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

ScaledRate Scale(RateScaling scaling, double rate, int64_t rows, int64_t base = 32) {
  return ScaleLearningRate({.scaling = scaling, .base_global_batch = base}, rate, rows).value();
}

TEST_CASE("the learning rate follows the global batch, linearly or with its square root, and the log says why") {
  const ScaledRate linear = Scale(RateScaling::kLinear, 5e-5, 256);
  CHECK(linear.learning_rate == Approx(4e-4).epsilon(1e-12));
  CHECK(linear.text == "learning rate 5e-5 x 8 = 4e-4, since the global batch is 256 and learning_rate is for 32");
  const ScaledRate root = Scale(RateScaling::kSqrt, 5e-5, 256);
  CHECK(root.learning_rate == Approx(5e-5 * 2.8284271247461903).epsilon(1e-12));
  CHECK(root.text ==
        "learning rate 5e-5 x 2.828 = 1.414e-4, since the global batch is 256 and learning_rate is for 32");
}

TEST_CASE("a smaller batch than learning_rate is for lowers it, and the same one leaves it") {
  CHECK(Scale(RateScaling::kLinear, 0.01, 16).text ==
        "learning rate 0.01 x 0.5 = 5e-3, since the global batch is 16 and learning_rate is for 32");
  CHECK(Scale(RateScaling::kSqrt, 0.1, 96, 96).learning_rate == 0.1);
  CHECK(Scale(RateScaling::kLinear, 0, 64).learning_rate == 0);
}

TEST_CASE("nothing is scaled, and nothing said, unless it is asked for") {
  const ScaledRate rate = Scale(RateScaling::kNone, 5e-5, 0);
  CHECK(rate.learning_rate == 5e-5);
  CHECK(rate.text.empty());
}

TEST_CASE("steps whose rows depend on lengths have no rate to scale") {
  const absl::Status status = ScaleLearningRate({.scaling = RateScaling::kLinear}, 5e-5, 0).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), "max_tokens_per_batch"));
}

}  // namespace
}  // namespace distill
