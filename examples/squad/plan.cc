#include "examples/squad/plan.h"

#include <algorithm>
#include <utility>

#include "examples/recipe/hub_sources.h"
#include "examples/recipe/run_plan.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::StatusOr<EncoderConfig> ReadConfig(const char* option, const std::string& folder) {
  absl::StatusOr<EncoderConfig> config = ReadEncoderConfig(folder);
  if (!config.ok()) return Annotate(config.status(), option);
  return config;
}

absl::StatusOr<RunPlan> PlanOf(const SquadOptions& options) {
  RunPlan plan;
  MemoryPlanTask& task = plan.memory;
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig model, ReadConfig("model_name_or_path", options.model_name_or_path));
  task.student = Planned(model, EncoderUse::kSpan);
  if (!options.teacher_model.empty()) {
    DISTILL_ASSIGN_OR_RETURN(const EncoderConfig teacher, ReadConfig("teacher_model", options.teacher_model));
    task.teacher = Planned(teacher, EncoderUse::kSpan);
  }
  task.dropout = options.dropout;
  task.gradient_checkpointing = options.gradient_checkpointing;
  plan.shard = options.shard;
  plan.shard->max_length = std::min(options.shard.max_length, model.max_position_embeddings);  // as in training
  plan.samples = options.max_train_samples;  // of a window each; where texts are longer, there are more
  task.data_bytes = TextBytes({options.train_file.empty() ? options.dataset_name : options.train_file,
                               options.do_eval ? options.validation_file : ""});
  return plan;
}

}  // namespace

absl::StatusOr<std::string> PlanRun(SquadOptions options, const RecipeFlags& flags, const World& world) {
  DISTILL_RETURN_IF_ERROR(FetchConfig("model_name_or_path", options.model_revision, options.model_name_or_path));
  DISTILL_RETURN_IF_ERROR(FetchConfig("teacher_model", options.teacher_revision, options.teacher_model));
  DISTILL_ASSIGN_OR_RETURN(RunPlan plan, PlanOf(options));
  DISTILL_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizerWhereThere(options.model_name_or_path));
  return DescribeRun(std::move(plan), options.trainer, options.run.device, flags, world);
}

}  // namespace distill
