#include "examples/distilbert/plan.h"

#include <optional>
#include <utility>
#include <vector>

#include "examples/distilbert/masked_text.h"
#include "examples/distilbert/sources.h"
#include "examples/recipe/run_plan.h"
#include "examples/recipe/scaled_rate.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/encoder_student.h"
#include "libdistill/plan/batch_table.h"

namespace distill {
namespace {

// By the models' configs. A teacher without a weight in the loss is asked by evaluations alone, and counted as if every
// step asked it.
absl::Status PlanModels(const DistilBertOptions& options, MemoryPlanTask& task) {
  std::optional<EncoderConfig> teacher;
  if (!options.teacher_model.empty()) {
    absl::StatusOr<EncoderConfig> config = ReadEncoderConfig(options.teacher_model);
    if (!config.ok()) return Annotate(config.status(), "teacher_model");
    teacher = *std::move(config);
    task.teacher = Planned(*teacher, EncoderUse::kWords);
  }
  if (options.student_checkpoint.empty()) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<int64_t> layers, TeacherLayers(options));
    DISTILL_ASSIGN_OR_RETURN(const EncoderConfig student, StudentConfig(*teacher, layers));
    task.student = Planned(student, EncoderUse::kWords);
    return absl::OkStatus();
  }
  const absl::StatusOr<EncoderConfig> student = ReadEncoderConfig(options.student_checkpoint);
  if (!student.ok()) return Annotate(student.status(), "student_checkpoint");
  task.student = Planned(*student, EncoderUse::kWords);
  return absl::OkStatus();
}

absl::StatusOr<RunPlan> PlanOf(const DistilBertOptions& options) {
  RunPlan plan;
  MemoryPlanTask& task = plan.memory;
  DISTILL_RETURN_IF_ERROR(PlanModels(options, task));
  task.dropout = options.dropout;
  task.gradient_checkpointing = options.gradient_checkpointing;
  task.keeps_teacher_states = task.teacher.has_value() && options.loss.cosine_weight > 0;
  task.losses_are_final = false;  // the three of them are weighed against one another
  task.chunk_tokens = options.loss.chunk_tokens;
  plan.shard = options.shard;
  // Into how many pieces texts are cut is known once they are read, which those of the demo are in no time.
  if (options.use_demo_data && Tokenizer::IsIn(TokenizerFolder(options).first)) {
    DISTILL_ASSIGN_OR_RETURN(const MaskedText text, LoadMaskedText(options));
    plan.samples = text.train->size();
  } else if (!options.use_demo_data) {
    task.data_bytes = TextBytes(SourceNames(options.sources));
  }
  return plan;
}

absl::StatusOr<std::string> DescribeTable(const DistilBertOptions& options, const RunPlan& plan,
                                          const PlannedJob& job) {
  BatchTable table{.global_batch_size = options.shard.global_rows, .gpus = job.world_size, .has_run = true};
  DISTILL_ASSIGN_OR_RETURN(table.memory, PlanOnGpus(plan, options.trainer, job));
  if (table.global_batch_size == 0) {
    table.global_batch_size = table.memory.rows * table.memory.accumulation_steps * job.world_size;
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<BatchRow> rows, PlanBatches(table));
  return DescribeBatches(table, rows);
}

}  // namespace

absl::StatusOr<std::string> PlanRun(DistilBertOptions options, const RecipeFlags& flags, const World& world) {
  DISTILL_RETURN_IF_ERROR(FetchConfigs(HubOptionsOf(options)));
  DISTILL_RETURN_IF_ERROR(CheckLengths(options));
  DISTILL_ASSIGN_OR_RETURN(const RunPlan plan, PlanOf(options));
  DISTILL_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizerWhereThere(TokenizerFolder(options).first));
  DISTILL_ASSIGN_OR_RETURN(std::string text, DescribeRun(plan, options.trainer, options.run.device, flags, world));
  DISTILL_ASSIGN_OR_RETURN(const PlannedJob job, JobOf(flags, world));
  DISTILL_ASSIGN_OR_RETURN(const std::string table, DescribeTable(options, plan, job));
  text += table;
  if (plan.memory.teacher.has_value()) {
    text += DescribeInference(*plan.memory.teacher, plan.memory.student, options.shard.max_length);
  }
  return text;
}

}  // namespace distill
