// The main job: a student learns from a teacher's logits, on as many ranks as the launcher starts.
//
//   distillrun -np 2 build/bin/distill_llm --config_file examples/llm/demo.yaml --learning_rate 1e-4
//   build/bin/distill_llm --generate OUTPUT_DIR --prompt "Where does Ada live?"
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "examples/llm/answer.h"
#include "examples/llm/llm_task.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/config/command_line.h"
#include "libdistill/data/show_batch.h"
#include "libdistill/distill.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

RunOptions RunOptionsOf(const LlmConfig& config) {
  RunOptions options;
  options.device = config.device;
  options.communicator.backend = config.comm_backend;
  options.communicator.timeout = absl::Seconds(config.comm_timeout_seconds);
  options.communicator.heartbeat_timeout = absl::Seconds(config.heartbeat_timeout_seconds);
  return options;
}

TrainerOptions TrainerOptionsOf(const LlmConfig& config) {
  TrainerOptions options;
  options.output_dir = config.output_dir;
  options.num_train_epochs = config.num_train_epochs;
  options.max_steps = config.max_steps;
  options.learning_rate = config.learning_rate;
  options.weight_decay = config.weight_decay;
  options.warmup_ratio = config.warmup_ratio;
  options.lr_scheduler_type = config.lr_scheduler_type;
  options.max_grad_norm = config.max_grad_norm;
  options.bf16 = config.bf16;
  options.logging_steps = config.logging_steps;
  options.save_steps = config.save_steps;
  options.save_total_limit = config.save_total_limit;
  options.eval_steps = config.eval_steps;
  options.resume_from_checkpoint = config.resume_from_checkpoint;
  options.seed = config.seed;
  options.resolved_config = ResolvedFields(config);
  return options;
}

absl::StatusOr<Distiller> MakeDistiller(const LlmConfig& config, const LlmText& text, const LlmModels& models) {
  DISTILL_ASSIGN_OR_RETURN(
      Distiller distiller,
      Distiller::Create(models.teacher, models.student, {.temperature = config.temperature, .alpha = config.alpha}));
  if (distiller.vocabulary() < text.tokenizer.vocab_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the smaller model's head has ", distiller.vocabulary(), " rows, fewer than the ", text.tokenizer.vocab_size(),
        " ids of the tokenizer in ", text.tokenizer_folder, "; teacher and student must both cover it"));
  }
  return distiller;
}

// Rows of padding in the student's vocabulary are saved as they were read.
void FreezePadding(const Decoder& student, int64_t vocabulary, Trainer& trainer) {
  for (const auto& parameter : student.named_parameters()) {
    const bool is_vocabulary = parameter.key() == "model.embed_tokens.weight" || parameter.key() == "lm_head.weight";
    if (is_vocabulary && parameter.value().size(0) > vocabulary) trainer.SetActiveRows(parameter.key(), vocabulary);
  }
}

// All that one rank can fail at by itself, before the ranks work together.
struct Task {
  LlmText text;
  LlmModels models;
  Distiller distiller;
  DataSharder sharder;
};

absl::StatusOr<Task> Prepare(const RunContext& run, const LlmConfig& config) {
  if (config.use_flash_attention && run.device().is_cpu()) {
    return absl::InvalidArgumentError("use_flash_attention: true needs a GPU, and this run is on a CPU; leave it out");
  }
  DISTILL_ASSIGN_OR_RETURN(LlmText text, LoadText(config));
  DISTILL_ASSIGN_OR_RETURN(LlmModels models, LoadModels(config, run.device()));
  DISTILL_ASSIGN_OR_RETURN(Distiller distiller, MakeDistiller(config, text, models));
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder, ShardTraining(config, text, run.world()));
  return Task{std::move(text), std::move(models), std::move(distiller), std::move(sharder)};
}

// OUTPUT_DIR/resolved_config.yaml: every setting with the value that this run uses; it can be given as --config_file.
absl::Status SaveConfig(const LlmConfig& config) {
  return PublishFiles(config.output_dir, [&](const std::string& folder) -> absl::Status {
    std::ofstream file(JoinPath(folder, "resolved_config.yaml"));
    if (file << FieldsToYaml(ResolvedFields(config)) << std::flush) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("cannot write resolved_config.yaml in ", config.output_dir));
  });
}

absl::Status Distill(RunContext& run, const LlmConfig& config) {
  if (config.heartbeat_timeout_seconds != LlmConfig().heartbeat_timeout_seconds && run.rank() == 0) {
    LogWarning(
        "heartbeat_timeout_seconds is not in use yet: a rank that stands still is found after comm_timeout_seconds");
  }
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), ResolvedFields(config)));
  LogInfo(absl::StrCat("project ", config.project_name, ", output in ", config.output_dir));
  absl::StatusOr<Task> task = Prepare(run, config);
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), task.status()));
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), run.rank() == 0 ? SaveConfig(config) : absl::OkStatus()));
  const std::shared_ptr<Decoder> student = task->models.student;
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, student, TrainerOptionsOf(config)));
  FreezePadding(*student, task->distiller.vocabulary(), *trainer);
  trainer->SetModelWriter([&](const std::string& folder) {
    return SaveDecoder(*student, folder, task->text.tokenizer_folder, config.bf16 ? torch::kBFloat16 : torch::kFloat32);
  });
  if (task->text.evaluation) {
    DISTILL_ASSIGN_OR_RETURN(DataSharder held_out, ShardEvaluation(config, task->text, run.world()));
    trainer->SetEvaluation(std::move(held_out));
  }
  return trainer->Fit(task->sharder, task->distiller).status();
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

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  const auto command = distill::ParseCommandLine(argc, argv);
  if (!command.ok()) {
    std::fprintf(stderr, "error: %s\n", std::string(command.status().message()).c_str());
    return 2;
  }
  if (!command->message.empty()) {
    std::fputs(command->message.c_str(), stdout);
    return 0;
  }
  return distill::Run(distill::RunOptionsOf(command->config), [&](distill::RunContext& run) {
    if (!command->flags.generate.empty()) return distill::PrintAnswer(run, *command);
    if (command->flags.show_batch) return distill::ShowBatch(run, command->config);
    return distill::Distill(run, command->config);
  });
}
