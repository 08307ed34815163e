// Groups of parameters with a learning rate or a weight decay of their own, by patterns of their names: what torch's
// optimizers call parameter groups. As text, of config files and command lines:
//
//   parameter_groups: "day_* learning_rate=0.005 weight_decay=0; *.embeddings.* learning_rate=1e-5 warmup_steps=500"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/core/field_text.h"
#include "libdistill/optim/schedule.h"

namespace distill {

struct ParameterGroup {
  std::string pattern;                       // of a whole name; "*" stands for any text
  std::optional<double> learning_rate = {};  // the highest; none: as of all others
  std::optional<double> min_lr = {};         // the lowest, of schedules with one; none: the same share as of others
  std::optional<double> warmup_steps = {};   // none: as of all others
  std::optional<double> weight_decay = {};   // of all of them, norms and biases too; none: as of all others

  bool operator==(const ParameterGroup&) const = default;
};
using ParameterGroups = std::vector<ParameterGroup>;

// Whether the pattern is the name, where each "*" may be any text.
bool MatchesPattern(const std::string& pattern, const std::string& name);
// Which group a parameter is of, the first whose pattern is its name; -1: none.
int64_t GroupOf(const ParameterGroups& groups, const std::string& name);

// As FieldText and ParseField of every option's type (core/field_text.h).
std::string FieldText(const ParameterGroups& groups);
bool ParseField(const std::string& text, ParameterGroups& groups);
constexpr FieldKind KindOfField(const ParameterGroups*) {
  return {"'PATTERN learning_rate=X min_lr=X warmup_steps=X weight_decay=X; PATTERN ...'", "TEXT"};
}

// InvalidArgument: rates below 0, a min_lr that the schedule does not take or above the highest rate.
[[nodiscard]] absl::Status CheckGroups(const ParameterGroups& groups, SchedulerType type, double learning_rate);

// The rates of one update.
struct LearningRates {
  LearningRates(double rate) : rate(rate) {}  // NOLINT: one rate for all
  double rate;
  std::vector<double> of_groups = {};  // of each; empty: `rate`

  double Of(int64_t group) const {
    return group < 0 || of_groups.empty() ? rate : of_groups[static_cast<size_t>(group)];
  }
};

// A schedule for all parameters, and one for each group.
class GroupedSchedule {
 public:
  GroupedSchedule(const Schedule::Options& options, const ParameterGroups& groups, int64_t total_steps);
  // As Schedule::LearningRate.
  LearningRates At(int64_t step) const;

 private:
  Schedule schedule_;
  std::vector<Schedule> of_groups_;
};

}  // namespace distill
