#include "examples/llm/plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/llm/llm_task.h"
#include "examples/llm/sources.h"
#include "examples/recipe/run_plan.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/flash_attention.h"
#include "libdistill/task/layer_map.h"

namespace distill {
namespace {

// What the family cannot, which a run would say before it begins.
absl::Status CheckFamily(const LlmOptions& options, const DecoderConfig& config, const char* option) {
  if (!options.use_flash_attention) return absl::OkStatus();
  return Annotate(CheckFlashAttention(config, options.shard.max_length), option);
}

// As much of it as is trained.
absl::StatusOr<PlannedModel> PlanStudent(const LlmOptions& options, const DecoderConfig& config) {
  const auto shapes = DecoderShapes(config, torch::kFloat32);
  DISTILL_RETURN_IF_ERROR(ChoosePart(options, *shapes));
  return PlannedPart(config, *shapes);
}

// hidden_weight's projections, and the states that are projected and compared.
absl::Status PlanStates(const LlmOptions& options, const DecoderConfig& teacher, const DecoderConfig& student,
                        PlannedModel& model) {
  if (options.loss.hidden_weight == 0) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const auto pairs,
                           ParseLayerMap(options.loss.layer_map, student.num_hidden_layers, teacher.num_hidden_layers));
  for (size_t i = 0; i < pairs.size(); ++i) {
    AddParameter(model, absl::StrCat("hidden_projections.weight_", i), {teacher.hidden_size, student.hidden_size},
                 /*multiplied=*/1);
  }
  const int64_t numbers = static_cast<int64_t>(pairs.size()) * (teacher.hidden_size + student.hidden_size);
  model.memory = [of_model = std::move(model.memory), numbers](const ModelPass& pass) {
    PassMemory memory = of_model(pass);
    memory.kept_bytes += pass.tokens * numbers * pass.element_bytes;
    return memory;
  };
  return absl::OkStatus();
}

absl::StatusOr<RunPlan> PlanOf(const LlmOptions& options) {
  RunPlan plan;
  MemoryPlanTask& task = plan.memory;
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig student, ReadDecoderConfig(options.student_model));
  DISTILL_RETURN_IF_ERROR(CheckFamily(options, student, "student_model"));
  DISTILL_RETURN_IF_ERROR(Annotate(CheckStudent(options.student_model, student), "student_model"));
  DISTILL_ASSIGN_OR_RETURN(task.student, PlanStudent(options, student));
  if (!options.teacher_model.empty()) {
    DISTILL_ASSIGN_OR_RETURN(const DecoderConfig teacher, ReadDecoderConfig(options.teacher_model));
    DISTILL_RETURN_IF_ERROR(CheckFamily(options, teacher, "teacher_model"));
    task.teacher = Planned(teacher);
    DISTILL_RETURN_IF_ERROR(PlanStates(options, teacher, student, task.student));
  }
  task.gradient_checkpointing = options.gradient_checkpointing;
  task.shard_teacher = options.shard_teacher;
  task.chunk_tokens = options.loss.chunk_tokens;
  plan.shard = options.shard;
  std::vector<std::string> data = SourceNames(options.sources);
  plan.samples = options.sources.max_samples * static_cast<int64_t>(data.size());
  if (!options.eval_dataset_name.empty()) data.push_back(options.eval_dataset_name);
  task.data_bytes = TextBytes(data);
  return plan;
}

}  // namespace

absl::StatusOr<std::string> PlanRun(LlmOptions options, const PlanFlags& flags, const World& world) {
  DISTILL_RETURN_IF_ERROR(FetchConfigs(HubOptionsOf(options)));
  DISTILL_ASSIGN_OR_RETURN(RunPlan plan, PlanOf(options));
  const std::string& folder = options.teacher_model.empty() ? options.student_model : options.teacher_model;
  DISTILL_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizerWhereThere(folder));
  return DescribeRun(std::move(plan), options.trainer, options.run.device, flags, world);
}

}  // namespace distill
