#include "examples/squad/plan.h"

#include <algorithm>
#include <utility>

#include "examples/recipe/run_plan.h"
#include "examples/squad/sources.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::StatusOr<std::string> PlanRun(SquadOptions options, const RecipeFlags& flags, const World& world) {
  DISTILL_RETURN_IF_ERROR(FetchConfigs(HubOptionsOf(options)));
  RunPlan plan;
  MemoryPlanTask& task = plan.memory;
  DISTILL_RETURN_IF_ERROR(PlanEncoders({"model_name_or_path", options.model_name_or_path},
                                       {"teacher_model", options.teacher_model}, EncoderUse::kSpan, task));
  task.dropout = options.dropout;
  task.gradient_checkpointing = options.gradient_checkpointing;
  plan.shard = options.shard;
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig model, ReadEncoderConfig(options.model_name_or_path));
  plan.shard->max_length = std::min(options.shard.max_length, model.max_position_embeddings);  // as in training
  plan.samples = options.max_train_samples;  // of a window each; where texts are longer, there are more
  task.data_bytes = TextBytes({options.train_file.empty() ? options.dataset_name : options.train_file,
                               options.do_eval ? options.validation_file : ""});
  DISTILL_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizerWhereThere(options.model_name_or_path));
  return DescribeRun(std::move(plan), options.trainer, options.run.device, flags, world);
}

}  // namespace distill
