// The main job: a student learns from a teacher's logits, on as many ranks as the launcher starts.
//
//   distillrun -np 2 build/bin/distill_llm --config_file examples/llm/demo.yaml --learning_rate 1e-4
//   build/bin/distill_llm --plan --world_size 16 --config_file examples/llm/demo.yaml
//   build/bin/distill_llm --dry_run --config_file examples/llm/demo.yaml
//   build/bin/distill_llm --spectrum 25 --student_model Qwen/Qwen2-1.5B
//   build/bin/distill_llm --publish OUTPUT_DIR --hub_location ORG/NAME
//   build/bin/distill_llm --generate OUTPUT_DIR --prompt "Where does Ada live?"
//   build/bin/distill_llm --generate OUTPUT_DIR --prompts questions.jsonl --answers answers.jsonl
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/llm/answer.h"
#include "examples/llm/first_batch.h"
#include "examples/llm/llm_task.h"
#include "examples/llm/options.h"
#include "examples/llm/plan.h"
#include "examples/llm/publish.h"
#include "examples/llm/sources.h"
#include "examples/llm/spectrum.h"
#include "examples/llm/student_card.h"
#include "examples/recipe/job.h"
#include "examples/recipe/recipe.h"
#include "examples/recipe/scaled_rate.h"
#include "libdistill/comm/agree.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/distill.h"
#include "libdistill/nn/flash_attention.h"
#include "libdistill/store/files.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/text/chat_template_files.h"

namespace distill {
namespace {

AttentionShape AttentionOf(const Decoder& model) {
  const DecoderConfig& config = model.config();
  return {config.num_attention_heads, config.num_key_value_heads, config.head_dim};
}

// What can fail on one rank alone, before the ranks work together.
struct Prepared {
  LlmText text;
  LlmModels models;
  std::shared_ptr<LogitDistillation> objective;
  std::unique_ptr<Distiller> task;
  std::optional<TokenBatch> first_batch;
};

absl::StatusOr<Prepared> Prepare(const RunContext& run, const LlmOptions& options) {
  const torch::Dtype dtype = WorkingType(options.trainer, run.device());
  if (options.use_flash_attention) DISTILL_RETURN_IF_ERROR(CheckFlashAttention(run.device(), dtype));
  DISTILL_ASSIGN_OR_RETURN(LlmText text, LoadText(options));
  DISTILL_ASSIGN_OR_RETURN(LlmModels models, LoadModels(options, run));
  DISTILL_ASSIGN_OR_RETURN(const auto template_files, FilesOf(text.chat, text.tokenizer_folder));
  for (const auto& [name, contents] : template_files) models.student->SaveFile(name, contents);
  if (options.gradient_checkpointing) models.student->EnableGradientCheckpointing();
  DISTILL_ASSIGN_OR_RETURN(TokenBatches batches, ShardTraining(options, text, run.world()));
  DISTILL_ASSIGN_OR_RETURN(auto objective, LogitDistillation::CreateLive(models.teacher, models.student, options.loss));
  auto task = std::make_unique<Distiller>(std::move(batches), objective);
  task->SetLoader(options.loader);
  if (text.evaluation) {
    DISTILL_ASSIGN_OR_RETURN(TokenBatches held_out, ShardEvaluation(options, text, run.world()));
    task->SetHeldOut(std::move(held_out));
  }
  if (options.use_flash_attention) {
    std::vector<AttentionShape> shapes = {AttentionOf(*models.student)};
    if (models.teacher != nullptr) shapes.push_back(AttentionOf(*models.teacher));
    DISTILL_RETURN_IF_ERROR(UseFlashAttention(run.device(), dtype, shapes));
  }
  DISTILL_ASSIGN_OR_RETURN(auto first_batch, FindFirstBatch(options, text, run.world()));
  return Prepared{std::move(text), std::move(models), std::move(objective), std::move(task), std::move(first_batch)};
}

// On rank 0, before anything is loaded, what would otherwise end the run when the training is over.
absl::Status CheckPlaces(const LlmOptions& options, const NamedSources& sources) {
  const std::string place = ParentFolder(kDefaultOutput);
  if (options.trainer.output_dir == kDefaultOutput && !FolderExists(place)) {
    return absl::InvalidArgumentError(absl::StrCat("output_dir: it is ", kDefaultOutput,
                                                   " by default, and there is no ", place,
                                                   " here; say where the student is to be saved"));
  }
  DISTILL_RETURN_IF_ERROR(CheckFolders(TrainerOptionsOf(options), sources));
  return CheckMayPublish(options);
}

std::string Count(int64_t number, const char* noun, const char* ending) {
  return absl::StrCat(number, " ", noun, number == 1 ? "" : ending);
}

// What a step will be, before the first one has been made.
std::string DescribeTraining(const RunContext& run, const LlmOptions& options, const torch::nn::Module& student) {
  int64_t parameters = 0, trained = 0;
  for (const torch::Tensor& parameter : student.parameters()) {
    parameters += parameter.numel();
    if (parameter.requires_grad()) trained += parameter.numel();
  }
  const auto millions = [](int64_t count) { return absl::StrFormat("%.1f", static_cast<double>(count) * 1e-6); };
  const std::string what =
      trained == parameters ? millions(parameters) : absl::StrCat(millions(trained), " of ", millions(parameters));
  const ShardOptions& shard = options.shard;
  const std::string rows = shard.max_tokens_per_batch > 0
                               ? absl::StrCat("rows of ", shard.max_tokens_per_batch, " tokens together, each")
                               : Count(shard.rows_per_rank, "row", "s");
  const std::string step =
      shard.global_rows > 0
          ? absl::StrCat(Count(shard.global_rows / run.world_size(), "row", "s"), ", ", rows, " at a time,")
          : absl::StrCat(Count(shard.accumulation_steps, "micro-batch", "es"), " of ", rows);
  return absl::StrFormat("training %s million parameters in %s; a step is %s x %s of up to %d tokens", what,
                         c10::toString(WorkingType(options.trainer, run.device())),
                         Count(run.world_size(), "rank", "s"), step, shard.max_length);
}

absl::Status Distill(RunContext& run, LlmOptions options) {
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), ValuesOf(options)));
  if (const std::string names = NamesByDefault(options); !names.empty() && run.rank() == 0) {
    LogInfo(absl::StrCat("by default: ", names));
  }
  std::vector<HubOption> sources = HubOptionsOf(options);
  DISTILL_RETURN_IF_ERROR(PinSources(run, options.trainer, sources));
  const auto check = [&] { return CheckPlaces(options, NamedSourcesOf(sources)); };
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), run.rank() == 0 ? check() : absl::OkStatus()));
  LogInfo(absl::StrCat("project ", options.project_name,
                       options.trainer.run_name.empty() ? "" : absl::StrCat(", run ", options.trainer.run_name),
                       ", output in ", options.trainer.output_dir));
  options.kept = OptionsToKeep(options);
  DISTILL_RETURN_IF_ERROR(FetchSources(run, sources));
  TrainerOptions trainer_options = TrainerOptionsOf(options);
  DISTILL_RETURN_IF_ERROR(ScaleRate(options.rate_scaling, options.shard, run.world_size(), trainer_options));
  absl::StatusOr<Prepared> made = absl::UnknownError("not prepared");
  const absl::Status prepared = CatchTorch([&] { return (made = Prepare(run, options)).status(); });
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), prepared));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), {{"the data set", made->text.train.summary}}));
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), CheckWeights(run, options, made->models)));
  if (options.shard_teacher && made->models.teacher != nullptr) {
    DISTILL_RETURN_IF_ERROR(ShardFrozen(run, *made->models.teacher));
  }
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, made->models.student, trainer_options));
  // Not earlier: Create refuses a folder that belongs to another run.
  DISTILL_RETURN_IF_ERROR(SaveConfig(run, trainer_options));
  if (run.rank() == 0) LogInfo(DescribeTraining(run, options, *made->models.student));
  trainer->AddObserver(
      std::make_shared<FirstBatchCheck>(*trainer, run, made->models, made->objective, std::move(made->first_batch)));
  const auto last = std::make_shared<LastLoss>();
  trainer->AddObserver(last);
  DISTILL_ASSIGN_OR_RETURN(const TrainResult result, trainer->Fit(*made->task));
  const ModelCard card = CardOf(run, options, result, *last, made->models);
  return PublishStudent(run, options, card, /*was_trained=*/last->loss().has_value());
}

std::string Where(const LlmOptions& options) {
  const std::string& folder = options.trainer.output_dir;
  if (!KeepsInFolder(options.publish)) return "";
  if (options.use_peft && options.adapters.form == AdapterForm::kAdapter) {
    return absl::StrCat("the adapters are in ", folder, ", for PEFT's PeftModel.from_pretrained over ",
                        options.student_model);
  }
  return absl::StrCat("the student is in ", folder, "; to try it: distill_llm --generate ", folder, " --prompt TEXT");
}

absl::Status ShowBatch(RunContext& run, LlmOptions options) {
  if (options.teacher_model == kDefaultTeacher) options.teacher_model.clear();  // a batch needs none
  std::vector<HubOption> sources = HubOptionsOf(options);
  DISTILL_RETURN_IF_ERROR(PinSources(run, options.trainer, sources));
  DISTILL_RETURN_IF_ERROR(FetchSources(run, sources));
  DISTILL_ASSIGN_OR_RETURN(const LlmText text, LoadText(options));
  DISTILL_ASSIGN_OR_RETURN(TokenBatches batches, ShardTraining(options, text, run.world()));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<TokenBatch> micro_batches, batches.NextStep());
  const std::string description = DescribeBatch(micro_batches.front(), text.tokenizer);
  if (run.rank() != 0) return absl::OkStatus();
  std::fputs(description.c_str(), stdout);
  DISTILL_ASSIGN_OR_RETURN(const std::string answers,
                           DescribeAnswers(run, options, micro_batches.front(), text.tokenizer));
  std::fputs(answers.c_str(), stdout);
  return absl::OkStatus();
}

absl::Status AnswerThem(const RunContext& run, const LlmCommand& command) {
  return run.rank() == 0 ? AnswerPrompts(command, run.device()) : absl::OkStatus();
}

absl::Status PublishIt(const RunContext& run, const LlmCommand& command) {
  if (run.rank() != 0) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(CheckMayPublish(command.options));
  return PublishFolder(command.options.publish, command.flags.publish);
}

// Of the student alone, whatever else a config file names.
absl::Status MakeSpectrum(RunContext& run, const LlmCommand& command) {
  LlmOptions options;
  options.teacher_model = options.sources.dataset_name = "";
  options.student_model = command.options.student_model;
  options.student_revision = command.options.student_revision;
  std::vector<HubOption> sources = HubOptionsOf(options);
  DISTILL_RETURN_IF_ERROR(PinSources(run, options.trainer, sources));
  DISTILL_RETURN_IF_ERROR(FetchSources(run, sources));
  if (run.rank() != 0) return absl::OkStatus();
  return WriteSpectrum(options, command.flags, command.options.student_model);
}

// What flags ask for instead of training.
std::function<absl::Status(RunContext&)> Instead(const LlmCommand& command) {
  const LlmFlags& flags = command.flags;
  if (!flags.publish.empty()) return [&](RunContext& run) { return PublishIt(run, command); };
  if (flags.spectrum > 0) return [&](RunContext& run) { return MakeSpectrum(run, command); };
  if (!flags.generate.empty()) return [&](RunContext& run) { return AnswerThem(run, command); };
  if (flags.show_batch) return [&](RunContext& run) { return ShowBatch(run, command.options); };
  return nullptr;
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Recipe<distill::LlmOptions, distill::LlmFlags> recipe = {.name = distill::kDistillLlm.name,
                                                                    .description = distill::kDistillLlm.about};
  recipe.run = distill::Distill;
  recipe.plan = distill::PlanRun;
  recipe.where = distill::Where;
  recipe.shrink = distill::Shrink;
  recipe.check = distill::CheckCommand;
  recipe.instead = distill::Instead;
  return distill::RunRecipe(argc, argv, recipe);
}
