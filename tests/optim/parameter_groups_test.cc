#include "libdistill/optim/parameter_groups.h"

#include <cmath>

#include "libdistill/core/description.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

struct Grouped {
  ParameterGroups groups;
};
template <class V>
void Describe(V& v, Grouped& o) {
  v.Field("parameter_groups", o.groups, "groups");
}

TEST_CASE("a star of a pattern is any text, and all else is itself") {
  CHECK(MatchesPattern("day_*", "day_weights.0"));
  CHECK(MatchesPattern("*", ""));
  CHECK(MatchesPattern("*.bias", "layers.0.bias"));
  CHECK(MatchesPattern("layers.*.weight*", "layers.11.attention.weight_ih"));
  CHECK(MatchesPattern("a*b*c", "a-b-b-c"));
  CHECK(MatchesPattern("exact", "exact"));
  CHECK_FALSE(MatchesPattern("day_*", "gru.day_weights"));
  CHECK_FALSE(MatchesPattern("*.bias", "layers.0.bias_hh"));
  CHECK_FALSE(MatchesPattern("a*b*c", "a-c-b"));
  CHECK_FALSE(MatchesPattern("exact", "exact.0"));
  CHECK_FALSE(MatchesPattern("", "x"));
  const ParameterGroups groups = {{.pattern = "*.bias"}, {.pattern = "day_*"}};
  CHECK(GroupOf(groups, "day_layer.bias") == 0);
  CHECK(GroupOf(groups, "day_layer.weight") == 1);
  CHECK(GroupOf(groups, "classifier.weight") == -1);
}

TEST_CASE("groups are written as text and read back") {
  Grouped options;
  const Description description = DescriptionOf(options);
  const FieldPlace& place = description.fields()[0].places[0];
  const std::string text =
      "day_* learning_rate=0.005 min_lr=0.0001 warmup_steps=1000 weight_decay=0; *.bias weight_decay=0.1";
  REQUIRE(place.parse(text));
  CHECK(place.text() == text);
  REQUIRE(options.groups.size() == 2);
  CHECK(options.groups[0].weight_decay == 0.0);
  CHECK_FALSE(options.groups[1].learning_rate.has_value());
  CHECK((place.parse("") && options.groups.empty()));
  for (const char* wrong : {"day_*", "day_* lr=1", "day_* learning_rate", "day_* learning_rate=x",
                            "learning_rate=1 min_lr=0", "day_* weight_decay=1 weight_decay=2"}) {
    INFO(wrong);
    CHECK_FALSE(place.parse(wrong));
  }
}

TEST_CASE("each group has the schedule of all, with what is its own") {
  Schedule::Options options{.type = SchedulerType::kCosineWithMinLr, .learning_rate = 1, .warmup_steps = 10};
  options.shape.min_lr = 0.1;
  const GroupedSchedule schedule(options,
                                 {{.pattern = "a", .learning_rate = 0.5},
                                  {.pattern = "b", .min_lr = 0.3, .warmup_steps = 0},
                                  {.pattern = "c", .weight_decay = 0}},
                                 110);
  const LearningRates risen = schedule.At(11), early = schedule.At(6), done = schedule.At(111);
  CHECK(early.rate == Approx(0.5));
  CHECK(early.Of(-1) == early.rate);
  CHECK(early.Of(0) == Approx(0.25));
  CHECK(early.Of(1) == Approx(0.3 + 0.7 * 0.5 * (1 + std::cos(M_PI * 5 / 110))));
  CHECK(early.Of(2) == early.rate);
  CHECK(risen.Of(0) == Approx(0.5));
  CHECK(done.rate == Approx(0.1));
  CHECK(done.Of(0) == Approx(0.05));  // as much lower than its highest as that of all
  CHECK(done.Of(1) == Approx(0.3));
  CHECK(LearningRates(0.25).Of(3) == 0.25);
}

TEST_CASE("a group's rates are refused where they mean nothing") {
  const auto refused = [](const ParameterGroup& group, SchedulerType type) {
    return std::string(CheckGroups({group}, type, 0.01).message());
  };
  CHECK_THAT(refused({.pattern = "a", .min_lr = 0.001}, SchedulerType::kLinear),
             Catch::Contains("parameter_groups: a: min_lr: lr_scheduler_type linear has no lowest rate"));
  CHECK_THAT(refused({.pattern = "a", .min_lr = 0.02}, SchedulerType::kCosineWithMinLr),
             Catch::Contains("min_lr is above its learning_rate"));
  CHECK_THAT(refused({.pattern = "a", .weight_decay = -1}, SchedulerType::kLinear), Catch::Contains("weight_decay"));
  CHECK(refused({.pattern = "a", .learning_rate = 0.05, .min_lr = 0.02}, SchedulerType::kCosineWithMinLr).empty());
}

}  // namespace
}  // namespace distill
