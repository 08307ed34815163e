#include "examples/brain2text/plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/brain2text/brain_task.h"
#include "examples/brain2text/day_gru.h"
#include "examples/recipe/run_plan.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

// Shapes: B trials, T bins, F features of a bin, P frames.
namespace distill {
namespace {

constexpr int64_t kBinsWhereUnknown = 500;  // ten seconds of 20 ms

// What the passes of the day layers take beside those of the GRU.
struct DayLayers {
  int64_t bins, frames, features, patch_size;
  bool smooths, drops;

  PassMemory Add(PassMemory memory, const ModelPass& pass) const {
    const int64_t trials = std::max<int64_t>(1, pass.tokens / frames);
    const int64_t states = trials * bins * features, weights = trials * features * features;  // a day's for each trial
    const int64_t mask = drops && pass.drops && pass.on_gpu ? states : 0;
    // What softsign is of (on GPUs its terms), and the smoothed features, of which the days' weights have their
    // gradients.
    memory.kept_bytes += ((pass.on_gpu ? 2 : 1) + (smooths ? 1 : 0)) * states * pass.element_bytes + mask;
    // Softsign's result (on GPUs its terms too) beside what it is of, or the days' weights; then the bins, of which
    // patches are a view (on GPUs the patches, while they are put in the order of their lengths and packed), and while
    // the GRU runs.
    const int64_t of_days = (2 * states + std::max((pass.on_gpu ? 2 : 1) * states, weights)) * pass.element_bytes;
    const int64_t input =
        pass.on_gpu ? pass.tokens * features * std::max<int64_t>(1, patch_size) * pass.element_bytes : 0;
    const int64_t before = states * pass.element_bytes + (patch_size > 0 ? input : 0);
    memory.forward_bytes = std::max(of_days, before + std::max(2 * input, memory.forward_bytes));
    return memory;
  }
};

void AddDayLayers(const std::vector<std::string>& sessions, const DayLayers& layers, PlannedModel& model) {
  const int64_t features = layers.features;
  // A bin goes through the layer of its day.
  const double multiplied =
      static_cast<double>(layers.bins) / static_cast<double>(layers.frames * std::ssize(sessions));
  const auto of_gru = static_cast<int64_t>(model.parameters.size());
  for (TrainedParameter& parameter : model.parameters) parameter.name = absl::StrCat("gru.", parameter.name);
  for (int64_t day = 0; day < std::ssize(sessions); ++day) {
    AddParameter(model, absl::StrCat("day_weights.", day), {features, features}, multiplied);
  }
  for (int64_t day = 0; day < std::ssize(sessions); ++day) {
    AddParameter(model, absl::StrCat("day_biases.", day), {1, features});
  }
  // They come before the GRU; no parameter here is of a block.
  std::rotate(model.parameters.begin(), model.parameters.begin() + of_gru, model.parameters.end());
}

// The most time bins of a trial, and where that is known from.
struct TrialLength {
  int64_t bins = 0;
  std::string source;
};

absl::StatusOr<TrialLength> LongestTrial(const Brain2TextOptions& options, const Brain2TextFlags& flags) {
  if (flags.trial_bins) return TrialLength{*flags.trial_bins, "as --trial_bins says"};
  if (!FolderExists(options.dataset_dir)) {
    return TrialLength{kBinsWhereUnknown,
                       "an assumption, since dataset_dir is no folder here: --trial_bins takes yours"};
  }
  using Labels = BrainRecordings::Labels;
  DISTILL_ASSIGN_OR_RETURN(const auto recordings, BrainRecordings::Open(options, "train", {}, Labels::kNeeded));
  TrialLength longest{1, absl::StrCat("the longest trial in ", options.dataset_dir)};
  for (int64_t trial = 0; trial < recordings->size(); ++trial) {
    DISTILL_ASSIGN_OR_RETURN(const int64_t bins, recordings->Length(trial));
    longest.bins = std::max(longest.bins, bins);
  }
  return longest;
}

absl::StatusOr<RunPlan> PlanOf(const Brain2TextOptions& options, int64_t bins, const PlannedJob& job) {
  RunPlan plan;
  MemoryPlanTask& task = plan.memory;
  const int64_t frames = FramesOf(options.model, bins);
  const int64_t targets = std::min(options.max_seq_elements, frames);
  DISTILL_ASSIGN_OR_RETURN(task.student, PlannedDayGru(options.model, bins, targets));
  if (!options.teacher_model.empty()) {
    absl::StatusOr<BrainModelOptions> teacher = ReadModelOptions(options.teacher_model);
    if (!teacher.ok()) return Annotate(teacher.status(), "teacher_model");
    DISTILL_ASSIGN_OR_RETURN(task.teacher, PlannedDayGru(*teacher, bins, targets));
  }
  task.dropout = options.model.rnn_dropout > 0 || options.model.input_layer_dropout > 0;
  DISTILL_ASSIGN_OR_RETURN(const int64_t trials, TrialsOfStep(options, job.world_size));
  task.accumulation_steps = options.gradient_accumulation_steps;
  task.rows = trials / (task.accumulation_steps * job.world_size);
  task.length = frames;
  return plan;
}

}  // namespace

absl::StatusOr<PlannedModel> PlannedDayGru(const BrainModelOptions& options, int64_t bins, int64_t targets) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> sessions, SessionsOf(options));
  const int64_t frames = FramesOf(options, bins);
  if (frames < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("trial_bins: ", bins, " are fewer than patch_size, ", options.patch_size, ": there is no frame"));
  }
  const DayLayers layers{
      bins, frames, options.n_input_features, options.patch_size, options.smooth_data, options.input_layer_dropout > 0};
  PlannedModel model = Planned(GruOf(options), targets);
  AddDayLayers(sessions, layers, model);
  model.input_bytes = bins * options.n_input_features * static_cast<int64_t>(sizeof(float)) / frames;
  model.memory = [of_gru = std::move(model.memory), layers](const ModelPass& pass) {
    return layers.Add(of_gru(pass), pass);
  };
  return model;
}

absl::StatusOr<std::string> PlanBrain(const Brain2TextOptions& given, const Brain2TextFlags& flags,
                                      const World& world) {
  const Brain2TextOptions options = Settle(given);
  DISTILL_ASSIGN_OR_RETURN(const PlannedJob job, JobOf(flags, world));
  DISTILL_ASSIGN_OR_RETURN(const TrialLength length, LongestTrial(options, flags));
  DISTILL_ASSIGN_OR_RETURN(RunPlan plan, PlanOf(options, length.bins, job));
  const int64_t frames = plan.memory.length;
  DISTILL_ASSIGN_OR_RETURN(const std::string text,
                           DescribeRun(std::move(plan), options.trainer, options.run.device, flags, world));
  return absl::StrFormat("Each trial is taken as %d time bins (%s), which give %d frames: the tokens below.\n%s",
                         length.bins, length.source, frames, text);
}

}  // namespace distill
