// Question answering on SQuAD: trains BERT-like models to find answers in texts, evaluates them, and answers.
//
//   distillrun -np 2 build/bin/squad --config_file examples/squad/demo.yaml
//   build/bin/squad answer --model_name_or_path OUTPUT_DIR --context FILE --question "Where does Ada live?"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "examples/recipe/job.h"
#include "examples/recipe/recipe.h"
#include "examples/recipe/scaled_rate.h"
#include "examples/squad/answer.h"
#include "examples/squad/options.h"
#include "examples/squad/plan.h"
#include "examples/squad/sources.h"
#include "examples/squad/squad_task.h"
#include "libdistill/core/utf8.h"
#include "libdistill/store/files.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/trainer.h"

namespace distill {
namespace {

// The lines that a training ends with, too.
void PrintScores(const MetricValues& metrics) {
  for (const auto& [name, value] : metrics) std::printf("eval_%s = %.6g\n", name.c_str(), value);
  std::fflush(stdout);
}

absl::Status Evaluate(RunContext& run, const SquadOptions& options, const SquadModels& models,
                      BatchTask<TensorBatch>& task) {
  TrainerOptions trainer_options = TrainerOptionsOf(options);
  trainer_options.output_dir = "";  // no run begins there; predictions are written
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, models.student, trainer_options));
  DISTILL_ASSIGN_OR_RETURN(const MetricValues values, trainer->Evaluate(*task.evaluator()));
  if (run.rank() == 0) PrintScores(values);
  return absl::OkStatus();
}

absl::Status Train(RunContext& run, const SquadOptions& options, const SquadModels& models,
                   BatchTask<TensorBatch>& task) {
  TrainerOptions trainer_options = TrainerOptionsOf(options);
  DISTILL_RETURN_IF_ERROR(ScaleRate(options.rate_scaling, options.shard, run.world_size(), trainer_options));
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, models.student, trainer_options));
  DISTILL_RETURN_IF_ERROR(SaveConfig(run, trainer_options));
  return trainer->Fit(task).status();
}

std::string Where(const SquadOptions& options) {
  const std::string& folder = options.trainer.output_dir;
  if (!options.do_train) return "";
  return absl::StrCat("the model is in ", folder, "; to ask it: squad answer --model_name_or_path ", folder,
                      " --context FILE --question TEXT");
}

absl::Status TrainAndEvaluate(RunContext& run, SquadOptions options) {
  if (options.do_train) {
    DISTILL_RETURN_IF_ERROR(BeginJob(run, options,
                                     {{"model_name_or_path", options.model_name_or_path},
                                      {"teacher_model", options.teacher_model},
                                      {"dataset_name", options.dataset_name},
                                      {"train_file", options.train_file},
                                      {"validation_file", options.validation_file}}));
  } else {
    DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), ValuesOf(options)));
  }
  std::vector<HubOption> sources = HubOptionsOf(options);
  DISTILL_RETURN_IF_ERROR(PinSources(run, options.trainer, sources));
  options.kept = OptionsToKeep(options);
  DISTILL_RETURN_IF_ERROR(FetchSources(run, sources));
  if (options.trainer.fp16 && run.device().is_cpu() && run.rank() == 0) {
    LogWarning(
        "fp16: this CPU computes float16 by way of float32, slower than float32 itself, to the same results as a "
        "GPU up to rounding; leave fp16 out to be quick");
  }
  std::shared_ptr<const SquadData> data;
  SquadModels models;
  std::unique_ptr<BatchTask<TensorBatch>> task;
  const absl::Status prepared = CatchTorch([&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(SquadData loaded, LoadSquadData(options));
    data = std::make_shared<const SquadData>(std::move(loaded));
    DISTILL_ASSIGN_OR_RETURN(models, LoadSquadModels(options, run));
    DISTILL_ASSIGN_OR_RETURN(task, MakeSquadTask(options, run.world(), data, models));
    return absl::OkStatus();
  });
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), prepared));
  return options.do_train ? Train(run, options, models, *task) : Evaluate(run, options, models, *task);
}

absl::Status PrintAnswer(const RunContext& run, const SquadOptions& options, const SquadFlags& flags) {
  if (run.rank() != 0) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const std::string context, ReadFile(flags.context));
  if (LeadingSpace(context) == context.size()) {
    return absl::InvalidArgumentError(absl::StrCat("--context: ", flags.context, " is empty: it must hold a text"));
  }
  DISTILL_ASSIGN_OR_RETURN(
      const std::string folder,
      LocalPath(options.model_name_or_path, {HubKind::kModel, {HubContents::kModel}, options.model_revision}));
  const AnswerOptions how = {.windows = {.max_length = options.shard.max_length, .stride = options.doc_stride},
                             .max_answer_length = options.decode.max_answer_length};
  DISTILL_ASSIGN_OR_RETURN(const auto answerer, SpanAnswerer::Load(folder, how, run.device()));
  DISTILL_ASSIGN_OR_RETURN(const SpanAnswer answer, answerer->Answer(flags.question, context));
  std::printf("%s\nscore %.6g, characters %d to %d\n", answer.text.c_str(), answer.score,
              static_cast<int>(answer.start), static_cast<int>(answer.end));
  return absl::OkStatus();
}

// Few short questions; the model is the one asked for.
void Shrink(SquadOptions& options) {
  options.max_train_samples = 8;
  options.max_eval_samples = 4;
  options.shard.max_length = std::min<int64_t>(options.shard.max_length, 96);
  options.doc_stride = std::min<int64_t>(options.doc_stride, 16);
  options.shard.rows_per_rank = 1;
  options.shard.held_out_rows = 1;
  options.shard.accumulation_steps = 1;
}

Recipe<SquadOptions, SquadFlags> SquadRecipe() {
  Recipe<SquadOptions, SquadFlags> squad = {
      .name = "squad", .description = "Trains models that find answers in texts; `squad answer` asks one."};
  squad.run = TrainAndEvaluate;
  squad.plan = PlanRun;
  squad.where = Where;
  squad.shrink = Shrink;
  squad.check = CheckSquad;
  squad.instead = [](const RecipeCommand<SquadOptions, SquadFlags>& command) -> Recipe<SquadOptions, SquadFlags>::Job {
    if (command.flags.question.empty()) return nullptr;
    return [&command](RunContext& run) { return PrintAnswer(run, command.options, command.flags); };
  };
  return squad;
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  if (argc > 1 && std::strcmp(argv[1], "answer") == 0) arguments.erase(arguments.begin() + 1);
  return distill::RunRecipe(static_cast<int>(arguments.size()), arguments.data(), distill::SquadRecipe());
}
