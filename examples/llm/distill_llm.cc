// The main job: a student learns from a teacher's logits, on as many ranks as the launcher starts.
//
//   distillrun -np 2 build/bin/distill_llm --config_file examples/llm/demo.yaml --learning_rate 1e-4
//   build/bin/distill_llm --plan --world_size 16 --config_file examples/llm/demo.yaml
//   build/bin/distill_llm --generate OUTPUT_DIR --prompt "Where does Ada live?"
#include <cstdio>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/llm/answer.h"
#include "examples/llm/llm_task.h"
#include "examples/llm/plan.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/config/command_line.h"
#include "libdistill/data/show_batch.h"
#include "libdistill/distill.h"
#include "libdistill/store/canonical_path.h"
#include "libdistill/store/files.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/flash_attention.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

RunOptions RunOptionsOf(const LlmConfig& config) {
  RunOptions options;
  options.device = config.device;
  options.deterministic = config.deterministic;
  options.pin_threads = config.pin_threads;
  options.communicator.backend = config.comm_backend;
  options.communicator.algorithm = config.comm_algorithm;
  options.communicator.tuning_file = config.comm_tuning_file;
  options.communicator.timeout = absl::Seconds(config.comm_timeout_seconds);
  options.communicator.heartbeat_timeout = absl::Seconds(config.heartbeat_timeout_seconds);
  return options;
}

// What the output folder keeps. To overwrite was asked for once, and would be of this run's own checkpoints later.
ConfigFields FieldsToKeep(LlmConfig config) {
  config.overwrite_output_dir = false;
  return ResolvedFields(config);
}

TrainerOptions TrainerOptionsOf(const LlmConfig& config) {
  TrainerOptions options;
  options.output_dir = config.output_dir;
  options.overwrite_output_dir = config.overwrite_output_dir;
  options.num_train_epochs = config.num_train_epochs;
  options.max_steps = config.max_steps;
  options.learning_rate = config.learning_rate;
  options.weight_decay = config.weight_decay;
  options.warmup_ratio = config.warmup_ratio;
  options.lr_scheduler_type = config.lr_scheduler_type;
  options.max_grad_norm = config.max_grad_norm;
  options.gradient_compression = config.gradient_compression;
  options.zero_stage = config.zero_stage;
  options.whole_after_fit = false;  // it is saved, and used no more
  options.bf16 = config.bf16;
  options.fp16 = config.fp16;
  options.logging_steps = config.logging_steps;
  options.save_steps = config.save_steps;
  options.save_total_limit = config.save_total_limit;
  options.eval_steps = config.eval_steps;
  options.resume_from_checkpoint = config.resume_from_checkpoint;
  options.seed = config.seed;
  options.resolved_config = FieldsToKeep(config);
  return options;
}

AttentionShape AttentionOf(const Decoder& model) {
  const DecoderConfig& config = model.config();
  return {config.num_attention_heads, config.num_key_value_heads, config.head_dim};
}

// All that one rank can fail at by itself, before the ranks work together.
struct Task {
  LlmText text;
  LlmModels models;
  Distiller distiller;
  DataSharder sharder;
  std::optional<DataSharder> held_out;
};

absl::StatusOr<Task> Prepare(const RunContext& run, const LlmConfig& config) {
  const torch::Dtype dtype = WorkingType(config);
  if (config.use_flash_attention) DISTILL_RETURN_IF_ERROR(CheckFlashAttention(run.device(), dtype));
  DISTILL_ASSIGN_OR_RETURN(LlmText text, LoadText(config));
  DISTILL_ASSIGN_OR_RETURN(LlmModels models, LoadModels(config, run));
  if (config.gradient_checkpointing) models.student->EnableGradientCheckpointing();
  DISTILL_ASSIGN_OR_RETURN(
      Distiller distiller,
      Distiller::Create(models.teacher, models.student,
                        {.temperature = config.temperature, .alpha = config.alpha, .beta = config.beta}));
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder, ShardTraining(config, text, run.world()));
  std::optional<DataSharder> held_out;
  if (text.evaluation) {
    DISTILL_ASSIGN_OR_RETURN(held_out, ShardEvaluation(config, text, run.world()));
  }
  if (config.use_flash_attention) {
    std::vector<AttentionShape> shapes = {AttentionOf(*models.student)};
    if (models.teacher != nullptr) shapes.push_back(AttentionOf(*models.teacher));
    DISTILL_RETURN_IF_ERROR(UseFlashAttention(run.device(), dtype, shapes));
  }
  return Task{std::move(text), std::move(models), std::move(distiller), std::move(sharder), std::move(held_out)};
}

// OUTPUT_DIR/resolved_config.yaml: every setting with the value that this run uses; it can be given as --config_file.
absl::Status SaveConfig(const LlmConfig& config) {
  return PublishFiles(config.output_dir, [&](const std::string& folder) -> absl::Status {
    std::ofstream file(JoinPath(folder, "resolved_config.yaml"));
    if (file << FieldsToYaml(FieldsToKeep(config)) << std::flush) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("cannot write resolved_config.yaml in ", config.output_dir));
  });
}

// What the run reads must not be among what it replaces.
absl::Status CheckSources(const LlmConfig& config) {
  if (!config.overwrite_output_dir || config.output_dir.empty()) return absl::OkStatus();
  for (const auto& [name, path] :
       {std::pair("student_model", config.student_model), std::pair("teacher_model", config.teacher_model),
        std::pair("dataset_name", config.dataset_name), std::pair("eval_dataset_name", config.eval_dataset_name)}) {
    if (path.empty() || !LiesIn(config.output_dir, path)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": ", path, " is in output_dir ", config.output_dir,
        ", whose contents overwrite_output_dir: true lets this run replace; choose another output_dir, or move it"));
  }
  return absl::OkStatus();
}

// On rank 0, before anything is loaded; the trainer asks the second question again, when data and models are.
absl::Status CheckFolders(const LlmConfig& config) {
  DISTILL_RETURN_IF_ERROR(CheckSources(config));
  return CheckOutputFolder(TrainerOptionsOf(config));
}

absl::Status Distill(RunContext& run, const LlmConfig& config) {
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), ResolvedFields(config)));
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), run.rank() == 0 ? CheckFolders(config) : absl::OkStatus()));
  LogInfo(absl::StrCat("project ", config.project_name, ", output in ", config.output_dir));
  absl::StatusOr<Task> task = absl::UnknownError("not prepared");
  const absl::Status prepared = CatchTorch([&] { return (task = Prepare(run, config)).status(); });
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), prepared));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), {{"the data set", task->text.train.summary}}));
  if (config.shard_teacher && task->models.teacher != nullptr) {
    DISTILL_RETURN_IF_ERROR(ShardFrozen(run, *task->models.teacher));
  }
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, task->models.student, TrainerOptionsOf(config)));
  // Not before: the trainer refuses a folder that belongs to another run.
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), run.rank() == 0 ? SaveConfig(config) : absl::OkStatus()));
  if (task->held_out) trainer->SetEvaluation(*std::move(task->held_out));
  DISTILL_RETURN_IF_ERROR(trainer->Fit(task->sharder, task->distiller).status());
  if (run.rank() == 0) {
    LogInfo(absl::StrCat("the student is in ", config.output_dir, "; to try it: distill_llm --generate ",
                         config.output_dir, " --prompt TEXT"));
  }
  return absl::OkStatus();
}

absl::Status ShowBatch(const RunContext& run, const LlmConfig& config) {
  DISTILL_ASSIGN_OR_RETURN(const LlmText text, LoadText(config));
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder, ShardTraining(config, text, run.world()));
  const std::string description = DescribeBatch(sharder.NextStep().front(), text.tokenizer);
  if (run.rank() == 0) std::fputs(description.c_str(), stdout);
  return absl::OkStatus();
}

absl::Status PrintAnswer(const RunContext& run, const CommandLine& command) {
  if (run.rank() != 0) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const std::string answer, Answer(command, run.device()));
  std::printf("%s\n", answer.c_str());
  return absl::OkStatus();
}

// Without the other ranks, which may not even exist yet; prints on the first one alone.
int PrintPlan(const CommandLine& command) {
  const auto world = ReadWorld();
  if (world.ok() && world->rank != 0) return 0;
  const auto text = world.ok() ? PlanRun(command, *world) : world.status();
  if (text.ok()) std::fputs(text->c_str(), stdout);
  if (!text.ok()) std::fprintf(stderr, "error: %s\n", std::string(text.status().message()).c_str());
  return text.ok() ? 0 : 2;
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  const auto command = distill::ParseCommandLine(argc, argv);
  if (command.ok() && !command->message.empty()) {
    const auto world = distill::ReadWorld();
    if (!world.ok() || world->rank == 0) std::fputs(command->message.c_str(), stdout);
    return 0;
  }
  if (command.ok() && command->flags.plan) return distill::PrintPlan(*command);
  distill::RunOptions options = command.ok() ? distill::RunOptionsOf(command->config) : distill::RunOptions();
  options.input = command.status();
  return distill::Run(options, [&](distill::RunContext& run) {
    if (!command->flags.generate.empty()) return distill::PrintAnswer(run, *command);
    if (command->flags.show_batch) return distill::ShowBatch(run, command->config);
    return distill::Distill(run, command->config);
  });
}
