#include "examples/brain2text/options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "examples/brain2text/smoothing.h"
#include "examples/recipe/required_value.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

constexpr char kDayLayers[] = "day_*";  // by the names of the model's parameters

// Whole numbers, with commas between; nullopt: one is none.
std::optional<std::vector<int64_t>> ParseNumbers(const std::string& text) {
  std::vector<int64_t> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(part), &numbers.emplace_back())) return std::nullopt;
  }
  return numbers;
}

absl::Status CheckModelSizes(const BrainModelOptions& model) {
  DISTILL_RETURN_IF_ERROR(SessionsOf(model).status());
  if (model.smooth_data) {
    DISTILL_RETURN_IF_ERROR(SmoothingKernel(model.smooth_kernel_std, model.smooth_kernel_size).status());
  }
  if (model.patch_size == 0 || model.patch_stride > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("patch_stride must be at least 1 where patch_size is above 0");
}

// The group of day layers; none where nothing is said of them.
ParameterGroups DayGroups(const Brain2TextOptions& options) {
  const DayRates& rates = options.day;
  ParameterGroup day{.pattern = kDayLayers,
                     .learning_rate = rates.lr_max_day,
                     .min_lr = rates.lr_min_day,
                     .weight_decay = rates.weight_decay_day};
  if (rates.lr_warmup_steps_day) day.warmup_steps = static_cast<double>(*rates.lr_warmup_steps_day);
  if (day == ParameterGroup{.pattern = kDayLayers}) return {};
  // Otherwise a group's lowest rate is the same share of its highest as the others' is.
  if (!day.min_lr) day.min_lr = std::min(options.lr_min, rates.lr_max_day.value_or(options.trainer.learning_rate));
  return {day};
}

// resolved_config.yaml has both, and they agree.
absl::Status CheckDayRates(const Brain2TextOptions& options) {
  const ParameterGroups& given = options.trainer.parameter_groups;
  const ParameterGroups of_days = DayGroups(options);
  if (given.empty() || of_days.empty() || given == of_days) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("parameter_groups takes the place of lr_max_day, lr_min_day, lr_warmup_steps_day and "
                   "weight_decay_day: leave these out, or say there what they say: '",
                   FieldText(of_days), "'"));
}

absl::Status CheckSchedule(const Brain2TextOptions& options) {
  const TrainerOptions& trainer = options.trainer;
  if (trainer.max_steps < 1) return IsMissing("num_training_batches");
  const SchedulerType type = trainer.lr_scheduler_type;
  if (type != SchedulerType::kCosine && type != SchedulerType::kCosineWithMinLr) {
    return absl::InvalidArgumentError(absl::StrCat("lr_scheduler_type: ", FieldText(type),
                                                   ": this recipe's rate falls by a cosine to lr_min; set cosine"));
  }
  if (options.lr_min > trainer.learning_rate) return absl::InvalidArgumentError("lr_min is above lr_max");
  for (const auto& [name, steps] : {std::pair("lr_decay_steps", options.lr_decay_steps),
                                    std::pair("lr_decay_steps_day", options.day.lr_decay_steps_day)}) {
    if (!steps.has_value() || *steps == trainer.max_steps) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", *steps, ", and num_training_batches ",
                                                   trainer.max_steps, ": the cosine ends with the training; leave ",
                                                   name, " out, or give it the same"));
  }
  const double highest = options.day.lr_max_day.value_or(trainer.learning_rate);
  if (options.day.lr_min_day.value_or(0) <= highest) return absl::OkStatus();
  return absl::InvalidArgumentError("lr_min_day is above lr_max_day");
}

absl::Status CheckInput(const Brain2TextOptions& options) {
  const auto sizes = ParseNumbers(options.input_layer_sizes);
  const BrainModelOptions& model = options.model;
  if (!options.input_layer_sizes.empty() &&
      (!sizes.has_value() || *sizes != std::vector<int64_t>{model.n_input_features})) {
    return absl::InvalidArgumentError(absl::StrCat("input_layer_sizes: ", options.input_layer_sizes,
                                                   ": a day layer has as many units as there are features, ",
                                                   model.n_input_features));
  }
  if (options.augmentation.random_walk_axis != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "random_walk_axis: 0 is the axis of trials, which know nothing of one another: give -1 or 1");
}

absl::Status CheckFlagsOf(const Brain2TextFlags& flags) {
  if (flags.trial_bins && !flags.plan) return absl::InvalidArgumentError("--trial_bins goes with --plan");
  if (flags.predict.empty()) {
    if (flags.trained_model.empty() && flags.predictions.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--trained_model and --predictions go with --predict SPLIT");
  }
  if (flags.predict != "train" && flags.predict != "val" && flags.predict != "test") {
    return absl::InvalidArgumentError(
        absl::StrCat("--predict: the splits are train, val and test, not '", flags.predict, "'"));
  }
  return flags.trained_model.empty() ? FlagIsMissing("trained_model") : absl::OkStatus();
}

}  // namespace

Brain2TextOptions::Brain2TextOptions() {
  trainer.learning_rate = 0.005;
  trainer.weight_decay = 0.001;
  trainer.adam_epsilon = 0.1;
  trainer.warmup_ratio = 0;
  trainer.warmup_steps = 1000;
  trainer.max_grad_norm = 10;
  trainer.seed = 10;
  trainer.logging_steps = 200;
  trainer.eval_steps = 2000;
  trainer.save_steps = 2000;
  trainer.save_total_limit = 2;
  trainer.whole_after_fit = false;
}

absl::StatusOr<std::vector<bool>> HeldOutSessions(const Brain2TextOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> sessions, SessionsOf(options.model));
  if (options.dataset_probability_val.empty()) return std::vector<bool>(sessions.size(), true);
  const auto numbers = ParseNumbers(options.dataset_probability_val);
  const bool fits = numbers.has_value() && numbers->size() == sessions.size() &&
                    std::all_of(numbers->begin(), numbers->end(), [](int64_t n) { return n == 0 || n == 1; });
  if (fits) return std::vector<bool>(numbers->begin(), numbers->end());
  return absl::InvalidArgumentError(absl::StrCat("dataset_probability_val: give 0 or 1 for each of the ",
                                                 sessions.size(), " sessions, not '", options.dataset_probability_val,
                                                 "'"));
}

absl::StatusOr<std::vector<int64_t>> FeatureSubset(const Brain2TextOptions& options) {
  if (options.feature_subset.empty()) return std::vector<int64_t>();
  const auto numbers = ParseNumbers(options.feature_subset);
  if (!numbers.has_value() || std::any_of(numbers->begin(), numbers->end(), [](int64_t n) { return n < 0; })) {
    return absl::InvalidArgumentError(
        absl::StrCat("feature_subset: give numbers of features, not '", options.feature_subset, "'"));
  }
  if (static_cast<int64_t>(numbers->size()) == options.model.n_input_features) return *numbers;
  return absl::InvalidArgumentError(absl::StrCat("feature_subset has ", numbers->size(),
                                                 " features, and n_input_features is ", options.model.n_input_features,
                                                 ": give both the same"));
}

absl::Status CheckBrain2Text(const Brain2TextOptions& options, const Brain2TextFlags& flags) {
  DISTILL_RETURN_IF_ERROR(CheckFlagsOf(flags));
  // The model's folder says what it is made of.
  if (flags.predict.empty()) DISTILL_RETURN_IF_ERROR(CheckModelSizes(options.model));
  if (!flags.plan && options.dataset_dir.empty()) return IsMissing("dataset_dir");
  if (!flags.predict.empty()) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(HeldOutSessions(options).status());
  DISTILL_RETURN_IF_ERROR(FeatureSubset(options).status());
  DISTILL_RETURN_IF_ERROR(CheckInput(options));
  DISTILL_RETURN_IF_ERROR(CheckSchedule(options));
  DISTILL_RETURN_IF_ERROR(CheckDayRates(options));
  const bool writes = !flags.plan && flags.compare_dataset_dir.empty();
  return writes && options.trainer.output_dir.empty() ? IsMissing("output_dir") : absl::OkStatus();
}

Brain2TextOptions Settle(Brain2TextOptions options) {
  TrainerOptions& trainer = options.trainer;
  trainer.lr_scheduler_type = SchedulerType::kCosineWithMinLr;
  trainer.lr_scheduler_kwargs.min_lr = std::min(options.lr_min, trainer.learning_rate);
  if (options.input_trainable && trainer.parameter_groups.empty()) trainer.parameter_groups = DayGroups(options);
  if (options.early_stopping) {
    trainer.best_model.metric_for_best_model = "phoneme_error_rate";
    trainer.best_model.early_stopping_patience = options.early_stopping_val_steps;
  }
  const auto held_out = HeldOutSessions(options);
  if (held_out.ok() && std::find(held_out->begin(), held_out->end(), true) == held_out->end()) trainer.eval_steps = 0;
  if (options.checkpoint_dir.empty() && !trainer.output_dir.empty()) {
    options.checkpoint_dir = JoinPath(trainer.output_dir, "checkpoint");
  }
  return options;
}

}  // namespace distill
