#include "examples/polarity/plan.h"

#include <utility>

#include "examples/polarity/sources.h"
#include "examples/recipe/run_plan.h"
#include "examples/recipe/shared_tokenizer.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::StatusOr<std::string> PlanRun(PolarityOptions options, const RecipeFlags& flags, const World& world) {
  DISTILL_RETURN_IF_ERROR(FetchConfigs(HubOptionsOf(options)));
  RunPlan plan;
  MemoryPlanTask& task = plan.memory;
  DISTILL_RETURN_IF_ERROR(PlanEncoders({"student_model", options.student_model},
                                       {"teacher_model", options.teacher_model}, EncoderUse::kClass, task,
                                       static_cast<int64_t>(LabelNames(options).size())));
  task.dropout = options.dropout;
  task.gradient_checkpointing = options.gradient_checkpointing;
  plan.shard = options.shard;
  plan.samples = options.max_train_samples;
  const bool is_one_folder = options.eval_dataset_name == options.dataset_name;  // with a file for each split
  task.data_bytes = TextBytes({options.dataset_name, is_one_folder ? "" : options.eval_dataset_name});
  DISTILL_ASSIGN_OR_RETURN(const auto tokenizer,
                           LoadTokenizerWhereThere(TokenizerFolderOf(options.student_model, options.teacher_model)));
  return DescribeRun(std::move(plan), options.trainer, options.run.device, flags, world);
}

}  // namespace distill
