#include "libdistill/optim/parameter_groups.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/star_pattern.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

using Field = std::pair<const char*, std::optional<double> ParameterGroup::*>;
constexpr std::array<Field, 4> kFields = {{{"learning_rate", &ParameterGroup::learning_rate},
                                           {"min_lr", &ParameterGroup::min_lr},
                                           {"warmup_steps", &ParameterGroup::warmup_steps},
                                           {"weight_decay", &ParameterGroup::weight_decay}}};

bool ParseSetting(absl::string_view text, ParameterGroup& group) {
  const std::pair<std::string, std::string> setting = absl::StrSplit(text, absl::MaxSplits('=', 1));
  for (const auto& [name, member] : kFields) {
    if (setting.first != name || (group.*member).has_value()) continue;
    return ParseField(setting.second, (group.*member).emplace());
  }
  return false;
}

Schedule::Options OptionsFor(Schedule::Options options, const ParameterGroup& group) {
  const double highest = options.learning_rate;
  options.learning_rate = group.learning_rate.value_or(highest);
  options.warmup_steps = group.warmup_steps.value_or(options.warmup_steps);
  if (group.warmup_steps == 0) options.warmup_ratio = 0;
  std::optional<double>& min_lr = options.shape.min_lr;
  if (group.min_lr.has_value()) {
    min_lr = group.min_lr;
    options.shape.min_lr_rate.reset();
  } else if (min_lr.has_value() && highest > 0) {
    *min_lr *= options.learning_rate / highest;
  }
  return options;
}

absl::Status CheckGroup(const ParameterGroup& group, SchedulerType type, double learning_rate) {
  for (const auto& [name, member] : kFields) {
    if ((group.*member).value_or(0) < 0) return absl::InvalidArgumentError(absl::StrCat(name, " must be at least 0"));
  }
  if (!group.min_lr.has_value()) return absl::OkStatus();
  if (type != SchedulerType::kCosineWithMinLr && type != SchedulerType::kCosineWarmupWithMinLr) {
    return absl::InvalidArgumentError(
        absl::StrCat("min_lr: lr_scheduler_type ", FieldText(type), " has no lowest rate"));
  }
  if (*group.min_lr <= group.learning_rate.value_or(learning_rate)) return absl::OkStatus();
  return absl::InvalidArgumentError("min_lr is above its learning_rate");
}

}  // namespace

bool MatchesPattern(const std::string& pattern, const std::string& name) {
  return MatchesStars(pattern, name, [](absl::string_view p, size_t& at, char letter) { return p[at++] == letter; });
}

int64_t GroupOf(const ParameterGroups& groups, const std::string& name) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const ParameterGroup& group) { return MatchesPattern(group.pattern, name); });
  return found == groups.end() ? -1 : found - groups.begin();
}

std::string FieldText(const ParameterGroups& groups) {
  return absl::StrJoin(groups, "; ", [](std::string* out, const ParameterGroup& group) {
    absl::StrAppend(out, group.pattern);
    for (const auto& [name, member] : kFields) {
      if ((group.*member).has_value()) absl::StrAppend(out, " ", name, "=", FieldText(*(group.*member)));
    }
  });
}

bool ParseField(const std::string& text, ParameterGroups& groups) {
  groups.clear();
  for (const absl::string_view part : absl::StrSplit(text, ';', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> words = absl::StrSplit(part, ' ', absl::SkipWhitespace());
    ParameterGroup& group = groups.emplace_back(ParameterGroup{.pattern = std::string(words.front())});
    if (words.size() < 2 || group.pattern.find('=') != std::string::npos) return false;
    for (size_t i = 1; i < words.size(); ++i) {
      if (!ParseSetting(words[i], group)) return false;
    }
  }
  return true;
}

absl::Status CheckGroups(const ParameterGroups& groups, SchedulerType type, double learning_rate) {
  for (const ParameterGroup& group : groups) {
    DISTILL_RETURN_IF_ERROR(
        Annotate(CheckGroup(group, type, learning_rate), absl::StrCat("parameter_groups: ", group.pattern)));
  }
  return absl::OkStatus();
}

GroupedSchedule::GroupedSchedule(const Schedule::Options& options, const ParameterGroups& groups, int64_t total_steps)
    : schedule_(options, total_steps) {
  for (const ParameterGroup& group : groups) of_groups_.emplace_back(OptionsFor(options, group), total_steps);
}

LearningRates GroupedSchedule::At(int64_t step) const {
  LearningRates rates = schedule_.LearningRate(step);
  for (const Schedule& schedule : of_groups_) rates.of_groups.push_back(schedule.LearningRate(step));
  return rates;
}

}  // namespace distill
