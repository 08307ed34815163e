#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/core/description.h"
#include "libdistill/train/trainer_options.h"
#include "tests/support/catch.h"

namespace distill {

// transformers.get_scheduler(name, optimizer of lr 2e-3, num_warmup_steps=3, num_training_steps=25), version 5.23: the
// learning rate of updates 1, 2, 3, 4, 5, 13, 24 and 25.
TEST_CASE("learning rates are those of transformers") {
  const std::vector<int64_t> steps = {1, 2, 3, 4, 5, 13, 24, 25};
  const std::map<SchedulerType, std::vector<double>> expected = {
      {SchedulerType::kCosine,
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.001989821441880933, 0.0012817325568414298,
        4.050702638550274e-05, 1.0178558119067316e-05}},
      {SchedulerType::kLinear,
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0019090909090909091, 0.0011818181818181819,
        0.00018181818181818183, 9.090909090909092e-05}},
      {SchedulerType::kConstant, {0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002}},
      {SchedulerType::kConstantWithWarmup,
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.002, 0.002, 0.002, 0.002}}};
  for (const auto& [type, rates] : expected) {
    TrainerOptions options{.learning_rate = 2e-3, .warmup_ratio = 0.1};
    options.lr_scheduler_type = type;
    const GroupedSchedule schedule = ScheduleOf(options, /*total_steps=*/25);
    for (size_t i = 0; i < steps.size(); ++i) {
      INFO(FieldText(type) << ", update " << steps[i]);
      CHECK(schedule.At(steps[i]).rate == Approx(rates[i]).epsilon(1e-12).margin(1e-18));
    }
  }
}

// As above, with scheduler_specific_kwargs: updates 1, 2, 3, 4, 5, 13, 20, 24 and 25.
TEST_CASE("shapes of learning rates are those of transformers") {
  struct Shaped {
    SchedulerType type;
    ScheduleShape shape;
    std::vector<double> rates;
  };
  const std::vector<int64_t> steps = {1, 2, 3, 4, 5, 13, 20, 24, 25};
  const std::vector<Shaped> expected = {
      {SchedulerType::kCosine,
       {.num_cycles = 1.5},
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0019096319953545184, 0.00024425042564574164,
        0.001841253532831181, 0.0003451392660547148, 9.036800464548133e-05}},
      {SchedulerType::kCosineWithRestarts,
       {.num_cycles = 3},
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0019096319953545184, 0.0017557495743542582,
        0.0018412535328311815, 0.0003451392660547157, 9.036800464548156e-05}},
      {SchedulerType::kCosineWithRestarts,
       {},
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.001989821441880933, 0.0012817325568414298,
        0.000345139266054715, 4.050702638550274e-05, 1.0178558119067316e-05}},
      {SchedulerType::kPolynomial,
       {},
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0019090954545454549, 0.001181859090909091,
        0.0005455272727272727, 0.000181909090909091, 9.100454545454538e-05}},
      {SchedulerType::kPolynomial,
       {.lr_end = 1e-4, .power = 2},
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0018311983471074383, 0.0007634297520661156,
        0.00024132231404958677, 0.00011570247933884299, 0.00010392561983471074}},
      {SchedulerType::kInverseSqrt,
       {},
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0017320508075688774, 0.001, 0.0007947194142390264,
        0.0007223151185146152, 0.0007071067811865475}},
      {SchedulerType::kInverseSqrt,
       {.timescale = 7},
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0018708286933869706, 0.0013228756555322954,
        0.001103354568734741, 0.0010183501544346312, 0.001}},
      {SchedulerType::kCosineWithMinLr,
       {.min_lr = 1e-4},
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0019903303697868862, 0.0013176459289993582,
        0.0004278823027519793, 0.0001384816750662276, 0.00010966963021311396}},
      {SchedulerType::kCosineWithMinLr,
       {.num_cycles = 1, .min_lr_rate = 0.1},
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.001963543676253048, 0.0003428718204519369,
        0.0009719166455540434, 0.0018571281795480628, 0.001963543676253048}},
      {SchedulerType::kCosineWarmupWithMinLr,
       {.min_lr_rate = 0.1},
       {0.0006666666666666666, 0.0013333333333333333, 0.002, 0.0019908392976928395, 0.001963543676253048,
        0.0012280833544459568, 0.00041982538308116767, 0.0002091607023071606, 0.0002}},
      {SchedulerType::kCosineWarmupWithMinLr,
       {.min_lr_rate = 0.1, .warmup_lr_rate = 0.2},
       {0.0004, 0.0012000000000000001, 0.002, 0.0019908392976928395, 0.001963543676253048, 0.0012280833544459568,
        0.00041982538308116767, 0.0002091607023071606, 0.0002}},
      {SchedulerType::kWarmupStableDecay,
       {.num_decay_steps = 10},
       {0.0, 0.0006666666666666666, 0.0013333333333333333, 0.002, 0.002, 0.002, 0.0013090169943749475,
        0.00019098300562505265, 4.894348370484647e-05}},
      {SchedulerType::kWarmupStableDecay,
       {.min_lr_ratio = 0.1,
        .num_decay_steps = 10,
        .warmup_type = RampType::kCosine,
        .decay_type = RampType::kOneMinusSqrt},
       {0.0002, 0.00065, 0.00155, 0.002, 0.002, 0.002, 0.0008615800423393833, 0.00039003105620015146,
        0.00029237006350907524}},
      {SchedulerType::kWarmupStableDecay,
       {.min_lr_ratio = 0.05,
        .num_stable_steps = 6,
        .num_decay_steps = 5,
        .warmup_type = RampType::kOneMinusSqrt,
        .decay_type = RampType::kLinear},
       {0.0001, 0.0004486564962373205, 0.0009030344885397108, 0.002, 0.002, 0.00086, 0.0001, 0.0001, 0.0001}}};
  for (const auto& [type, shape, rates] : expected) {
    TrainerOptions options{.learning_rate = 2e-3, .warmup_ratio = 0.1};
    options.lr_scheduler_type = type;
    options.lr_scheduler_kwargs = shape;
    REQUIRE(CheckOptions(options) == absl::OkStatus());
    const GroupedSchedule schedule = ScheduleOf(options, /*total_steps=*/25);
    for (size_t i = 0; i < steps.size(); ++i) {
      INFO(FieldText(type) << ", update " << steps[i]);
      CHECK(schedule.At(steps[i]).rate == Approx(rates[i]).epsilon(1e-12).margin(1e-18));
    }
  }
}

TEST_CASE("warm-up takes warmup_steps, or a share of the steps rounded up") {
  const auto rate = [](TrainerOptions options, int64_t total, int64_t step) {
    options.learning_rate = 1;
    return ScheduleOf(options, total).At(step).rate;
  };
  constexpr SchedulerType kLinear = SchedulerType::kLinear, kConstant = SchedulerType::kConstantWithWarmup;
  CHECK(rate({.warmup_ratio = 0.1, .lr_scheduler_type = kLinear}, 21, 3) == Approx(2.0 / 3));  // of 3 steps
  CHECK(rate({.warmup_ratio = 0.0, .lr_scheduler_type = kLinear}, 10, 1) == 1.0);
  CHECK(rate({.warmup_ratio = 1.0, .lr_scheduler_type = kConstant}, 4, 4) == 0.75);
  CHECK(rate({.warmup_ratio = 0.1, .warmup_steps = 4, .lr_scheduler_type = kConstant}, 100, 4) == 0.75);
  CHECK(rate({.warmup_ratio = 0.1, .warmup_steps = 0.5, .lr_scheduler_type = kConstant}, 7, 4) == 0.75);  // of 4 steps
  CHECK(rate({.warmup_ratio = 0.1, .warmup_steps = 0, .lr_scheduler_type = kConstant}, 40, 4) == 0.75);
}

TEST_CASE("what a schedule does not take, or lacks, is refused by name") {
  const auto error = [](SchedulerType type, ScheduleShape shape) {
    TrainerOptions options{.learning_rate = 1e-3};
    options.lr_scheduler_type = type;
    options.lr_scheduler_kwargs = shape;
    return std::string(CheckOptions(options).message());
  };
  CHECK(error(SchedulerType::kCosine, {.power = 2}) ==
        "lr_scheduler_kwargs.power: lr_scheduler_type cosine does not use it; it takes num_cycles");
  CHECK(error(SchedulerType::kLinear, {.num_cycles = 2}) ==
        "lr_scheduler_kwargs.num_cycles: lr_scheduler_type linear does not use it; it takes no lr_scheduler_kwargs");
  CHECK(absl::StrContains(error(SchedulerType::kCosineWithMinLr, {}), "needs one of lr_scheduler_kwargs.min_lr and"));
  CHECK(
      absl::StrContains(error(SchedulerType::kCosineWithMinLr, {.min_lr = 1e-4, .min_lr_rate = 0.1}), "needs one of"));
  CHECK(absl::StrContains(error(SchedulerType::kCosineWithMinLr, {.min_lr = 1}), "min_lr is above learning_rate"));
  CHECK(absl::StrContains(error(SchedulerType::kWarmupStableDecay, {}), "num_decay_steps"));
  CHECK(absl::StrContains(error(SchedulerType::kPolynomial, {.lr_end = 1}), "lr_end must be below learning_rate"));
  CHECK(absl::StrContains(error(SchedulerType::kPolynomial, {.power = -1}), "lr_scheduler_kwargs.power: must be"));
  CHECK(error(SchedulerType::kCosineWithMinLr, {.min_lr_rate = 0.1}).empty());
}

}  // namespace distill
