// DistilBERT out of BERT: a masked language model with some of its teacher's layers learns the teacher's words and
// states, and masked words.
//
//   distillrun -np 8 build/bin/distilbert --config_file examples/distilbert/distilbert.yaml
//   build/bin/distilbert --plan --config_file examples/distilbert/distilbert.yaml
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "examples/distilbert/compare.h"
#include "examples/distilbert/masked_text.h"
#include "examples/distilbert/models.h"
#include "examples/distilbert/options.h"
#include "examples/distilbert/plan.h"
#include "examples/distilbert/sources.h"
#include "examples/recipe/job.h"
#include "examples/recipe/recipe.h"
#include "examples/recipe/scaled_rate.h"
#include "libdistill/distill.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

// What can fail on one rank alone, before the ranks work together.
struct Prepared {
  MaskedText text;
  DistilBertModels models;
  std::unique_ptr<MaskedDistiller> task;
};

absl::StatusOr<Prepared> Prepare(const RunContext& run, const DistilBertOptions& options) {
  DISTILL_RETURN_IF_ERROR(StepOn(options.shard, run.world_size()).status());
  DISTILL_ASSIGN_OR_RETURN(DistilBertModels models, LoadModels(options, run));
  // Before text is read, which may take long: whether the models go together.
  DISTILL_ASSIGN_OR_RETURN(auto objective,
                           MaskedDistillation::Create(LiveTeacher(models.teacher), models.student, options.loss));
  DISTILL_ASSIGN_OR_RETURN(MaskedText text, LoadMaskedText(options));
  DISTILL_ASSIGN_OR_RETURN(TokenBatches batches, ShardTraining(options, text, run.world()));
  auto task = std::make_unique<MaskedDistiller>(std::move(batches), std::move(objective));
  task->SetLoader(options.loader);
  if (text.held_out != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(TokenBatches held_out, ShardHeldOut(options, text, run.world()));
    task->SetHeldOut(std::move(held_out));
  }
  return Prepared{std::move(text), std::move(models), std::move(task)};
}

absl::Status Distill(RunContext& run, DistilBertOptions options) {
  if (options.use_demo_data && !options.sources.dataset_name.empty()) {
    if (run.rank() == 0) LogInfo("use_demo_data: dataset_name is left out");
    options.sources.dataset_name.clear();  // nothing of it is fetched
  }
  std::vector<HubOption> sources = HubOptionsOf(options);
  DISTILL_RETURN_IF_ERROR(BeginJob(run, options, NamedSourcesOf(sources)));
  DISTILL_RETURN_IF_ERROR(PinSources(run, options.trainer, sources));
  options.kept = OptionsToKeep(options);
  DISTILL_RETURN_IF_ERROR(FetchSources(run, sources));
  absl::StatusOr<Prepared> made = absl::UnknownError("not prepared");
  const absl::Status prepared = CatchTorch([&] { return (made = Prepare(run, options)).status(); });
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), prepared));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), {{"the text", made->text.summary}}));
  TrainerOptions trainer_options = TrainerOptionsOf(options);
  DISTILL_RETURN_IF_ERROR(ScaleRate(options.rate_scaling, options.shard, run.world_size(), trainer_options));
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, made->models.student, trainer_options));
  DISTILL_RETURN_IF_ERROR(SaveConfig(run, trainer_options));
  DISTILL_RETURN_IF_ERROR(trainer->Fit(*made->task).status());
  return CompareModels(run, *trainer, options, made->text, made->models);
}

// A few short rows of whatever text there is.
void Shrink(DistilBertOptions& options) {
  options.sources.max_samples = 64;
  options.sources.validation_split = 0.5;
  options.max_eval_samples = 4;
  options.shard.max_length = std::min<int64_t>(options.shard.max_length, 64);
  options.shard.rows_per_rank = 2;
  options.shard.accumulation_steps = 1;
  options.shard.global_rows = 0;
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Recipe<distill::DistilBertOptions> recipe = {
      .name = "distilbert", .description = "Trains a small masked language model from a large one: DistilBERT."};
  recipe.run = distill::Distill;
  recipe.plan = distill::PlanRun;
  recipe.shrink = distill::Shrink;
  recipe.check = distill::CheckDistilBert;
  return distill::RunRecipe(argc, argv, recipe);
}
