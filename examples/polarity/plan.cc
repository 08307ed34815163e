#include "examples/polarity/plan.h"

#include <utility>

#include "examples/polarity/models.h"
#include "examples/recipe/hub_sources.h"
#include "examples/recipe/run_plan.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::StatusOr<PlannedModel> PlanClassifier(const char* option, const std::string& folder, int64_t labels) {
  const absl::StatusOr<EncoderConfig> config = ReadEncoderConfig(folder);
  if (!config.ok()) return Annotate(config.status(), option);
  return Planned(*config, EncoderUse::kClass, labels);
}

absl::StatusOr<RunPlan> PlanOf(const PolarityOptions& options) {
  RunPlan plan;
  MemoryPlanTask& task = plan.memory;
  const auto labels = static_cast<int64_t>(LabelNames(options).size());
  DISTILL_ASSIGN_OR_RETURN(task.student, PlanClassifier("student_model", options.student_model, labels));
  if (!options.teacher_model.empty()) {
    DISTILL_ASSIGN_OR_RETURN(task.teacher, PlanClassifier("teacher_model", options.teacher_model, labels));
  }
  task.dropout = options.dropout;
  task.gradient_checkpointing = options.gradient_checkpointing;
  plan.shard = options.shard;
  plan.samples = options.max_train_samples;
  const bool is_one_folder = options.eval_dataset_name == options.dataset_name;  // with a file for each split
  task.data_bytes = TextBytes({options.dataset_name, is_one_folder ? "" : options.eval_dataset_name});
  return plan;
}

}  // namespace

absl::StatusOr<std::string> PlanRun(PolarityOptions options, const RecipeFlags& flags, const World& world) {
  DISTILL_RETURN_IF_ERROR(FetchConfig("student_model", options.student_revision, options.student_model));
  DISTILL_RETURN_IF_ERROR(FetchConfig("teacher_model", options.teacher_revision, options.teacher_model));
  DISTILL_ASSIGN_OR_RETURN(RunPlan plan, PlanOf(options));
  DISTILL_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizerWhereThere(TokenizerFolderOf(options)));
  return DescribeRun(std::move(plan), options.trainer, options.run.device, flags, world);
}

}  // namespace distill
