#include "libdistill/train/schedule.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/support/catch.h"

namespace distill {

// transformers.get_scheduler(name, optimizer of lr 2e-3, num_warmup_steps=3, num_training_steps=25), version 5.23: the
// learning rate of updates 1, 2, 3, 4, 5, 13, 24 and 25.
TEST_CASE("learning rates are those of transformers") {
  const std::vector<int64_t> steps = {1, 2, 3, 4, 5, 13, 24, 25};
  const std::map<std::string, std::vector<double>> expected = {
      {"cosine",
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.001989821441880933, 0.0012817325568414298,
        4.050702638550274e-05, 1.0178558119067316e-05}},
      {"linear",
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0019090909090909091, 0.0011818181818181819,
        0.00018181818181818183, 9.090909090909092e-05}},
      {"constant", {0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002}},
      {"constant_with_warmup", {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.002, 0.002, 0.002, 0.002}}};
  for (const auto& [type, rates] : expected) {
    const auto schedule = Schedule::Create(type, 2e-3, /*warmup_ratio=*/0.1, /*total_steps=*/25);
    REQUIRE(schedule.ok());
    for (size_t i = 0; i < steps.size(); ++i) {
      INFO(type << ", update " << steps[i]);
      CHECK(schedule->LearningRate(steps[i]) == Approx(rates[i]).epsilon(1e-12).margin(1e-18));
    }
  }
}

TEST_CASE("warm-up takes the share of the steps rounded up") {
  CHECK(Schedule::Create("linear", 1.0, 0.1, 21)->LearningRate(3) == Approx(2.0 / 3));  // of 3 steps
  CHECK(Schedule::Create("linear", 1.0, 0.0, 10)->LearningRate(1) == 1.0);
  CHECK(Schedule::Create("constant_with_warmup", 1.0, 1.0, 4)->LearningRate(4) == 0.75);
}

TEST_CASE("an unknown schedule is refused by name") {
  const auto schedule = Schedule::Create("polynomial", 1.0, 0.1, 10);
  CHECK(schedule.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(schedule.status().message(), "polynomial"));
}

}  // namespace distill
