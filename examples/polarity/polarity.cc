// The sentiment of reviews, or any classes of texts: a BERT or DistilBERT model with a classifier, trained on labels,
// and on what a larger classifier says where there is one.
//
//   distillrun -np 2 build/bin/polarity --config_file examples/polarity/demo.yaml --learning_rate 1e-3
//   build/bin/polarity --dry_run --config_file examples/polarity/polarity.yaml
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/polarity/models.h"
#include "examples/polarity/objective.h"
#include "examples/polarity/options.h"
#include "examples/polarity/plan.h"
#include "examples/polarity/results.h"
#include "examples/polarity/reviews.h"
#include "examples/polarity/sources.h"
#include "examples/recipe/job.h"
#include "examples/recipe/recipe.h"
#include "examples/recipe/scaled_rate.h"
#include "examples/recipe/shared_tokenizer.h"
#include "libdistill/distill.h"
#include "libdistill/task/batch_task.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

// What can fail on one rank alone, before the ranks work together.
struct Prepared {
  Classifiers models;
  Reviews reviews;
  std::unique_ptr<BatchTask<TensorBatch>> task;
};

absl::StatusOr<Prepared> Prepare(const RunContext& run, const PolarityOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTokenizer(options));
  DISTILL_ASSIGN_OR_RETURN(Classifiers models, LoadClassifiers(options, run));
  const bool with_types = models.student->config().type_vocab_size > 1;
  DISTILL_ASSIGN_OR_RETURN(Reviews reviews, LoadReviews(options, tokenizer, with_types));
  DISTILL_ASSIGN_OR_RETURN(auto batches, ShardReviews(reviews.train, run.world(), options.shard, tokenizer));
  const auto objective = std::make_shared<PolarityObjective>(
      models.student, models.teacher, PolarityLoss{options.alpha, options.temperature}, LabelNames(options),
      reviews.held_out ? reviews.held_out->samples->size() : 0,
      TokenizerFolderOf(options.student_model, options.teacher_model));
  auto task = std::make_unique<BatchTask<TensorBatch>>(std::move(batches), objective);
  task->SetLoader(options.loader);
  if (reviews.held_out) {
    DISTILL_ASSIGN_OR_RETURN(auto held_out,
                             ShardReviews(*reviews.held_out, run.world(), ForEvaluation(options.shard), tokenizer));
    task->SetHeldOut(std::move(held_out));
  }
  return Prepared{std::move(models), std::move(reviews), std::move(task)};
}

std::string DescribeResult(const RunContext& run, const RunResults& results) {
  const auto& metrics = results.trained.metrics;
  const auto accuracy = metrics.find("eval_accuracy");
  return absl::StrFormat("%d step(s) on %d rank(s) in %.1f s, %.1f samples/s%s", results.trained.steps,
                         run.world_size(), results.trained.train_runtime, metrics.at("train_samples_per_second"),
                         accuracy == metrics.end() ? "" : absl::StrFormat("; accuracy %.4f", accuracy->second));
}

absl::Status Train(RunContext& run, const PolarityOptions& asked) {
  PolarityOptions options = asked;
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), ValuesOf(options)));
  std::vector<HubOption> sources = HubOptionsOf(options);
  DISTILL_RETURN_IF_ERROR(PinSources(run, options.trainer, sources));
  DISTILL_RETURN_IF_ERROR(AgreeOnFolders(run, TrainerOptionsOf(options), NamedSourcesOf(sources)));
  options.kept = OptionsToKeep(options);
  DISTILL_RETURN_IF_ERROR(FetchSources(run, sources));
  TrainerOptions trainer_options = TrainerOptionsOf(options);
  DISTILL_RETURN_IF_ERROR(ScaleRate(options.rate_scaling, options.shard, run.world_size(), trainer_options));
  absl::StatusOr<Prepared> made = absl::UnknownError("not prepared");
  DISTILL_RETURN_IF_ERROR(
      Agree(run.communicator(), CatchTorch([&] { return (made = Prepare(run, options)).status(); })));
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, made->models.student, trainer_options));
  // Not earlier: Create refuses a folder that belongs to another run.
  DISTILL_RETURN_IF_ERROR(SaveConfig(run, trainer_options));
  const auto times = std::make_shared<StepTimes>();
  trainer->AddObserver(times);
  RunResults results;
  results.learning_rate = trainer_options.learning_rate;
  DISTILL_ASSIGN_OR_RETURN(results.global_batch, RowsOfStep(options.shard, run.world_size()));
  results.train_samples = made->reviews.train.samples->size();
  results.startup_seconds = absl::ToDoubleSeconds(run.age());
  DISTILL_ASSIGN_OR_RETURN(results.trained, trainer->Fit(*made->task));
  results.median_step_seconds = times->MedianSeconds();
  LogInfo(DescribeResult(run, results));
  return SaveResults(run, options, results);
}

void Shrink(PolarityOptions& options) {
  options.max_train_samples = 64;
  options.max_eval_samples = 64;
  options.shard.max_length = std::min<int64_t>(options.shard.max_length, 32);
  options.shard.rows_per_rank = std::min<int64_t>(options.shard.rows_per_rank, 2);
  options.shard.accumulation_steps = 1;
  options.results_file = "";
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Recipe<distill::PolarityOptions> recipe;
  recipe.name = "polarity";
  recipe.description = "Trains a classifier of reviews.";
  recipe.run = distill::Train;
  recipe.plan = distill::PlanRun;
  recipe.shrink = distill::Shrink;
  recipe.check = distill::CheckPolarity;
  return distill::RunRecipe(argc, argv, recipe);
}
