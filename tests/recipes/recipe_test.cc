#include "examples/recipe/recipe.h"

#include "absl/strings/match.h"
#include "examples/recipe/kept_options.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

struct TinyOptions {
  int64_t size = 4;
  TrainerOptions trainer;
  RunOptions run;
};

template <class V>
void Describe(V& v, TinyOptions& o) {
  v.Field("size", o.size, AtLeast(1), "of what there is");
  Describe(v, o.trainer);
  Describe(v, o.run);
}

absl::StatusOr<RecipeCommand<TinyOptions>> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "tiny");
  return ParseCommand<TinyOptions>(static_cast<int>(arguments.size()), arguments.data(), {"tiny", "Is small."});
}

TEST_CASE("a recipe's command line has its own options, those of the trainer and of the run, and what to do instead") {
  const auto command = Parse({"--size", "5", "--lr", "0.5", "--device", "cpu", "--plan", "--world-size", "16"});
  INFO(command.status().ToString());
  REQUIRE(command.ok());
  CHECK(command->options.size == 5);
  CHECK(command->options.trainer.learning_rate == 0.5);
  CHECK(command->options.run.device == DeviceChoice::kCpu);
  CHECK(command->flags.plan);
  CHECK(command->flags.world_size == 16);
  CHECK(Parse({"--dry-run"})->flags.dry_run);
  CHECK(absl::StrContains(Parse({"--help"})->line.message, "--dry_run"));
  CHECK(absl::StrContains(Parse({"--siez", "5"}).status().message(), "did you mean"));
  CHECK(absl::StrContains(Parse({"--size", "0"}).status().message(), "size"));
  CHECK(absl::StrContains(Parse({"--world_size", "2"}).status().message(), "go with --plan"));
  CHECK(absl::StrContains(Parse({"--efficiency", "0.3"}).status().message(), "go with --plan"));
  CHECK(Parse({"--plan", "--instance", "g5.2xlarge", "--seconds-per-step", "0.6"})->flags.seconds_per_step == 0.6);
  CHECK(absl::StrContains(Parse({"--plan", "--dry_run"}).status().message(), "two things to do"));
}

TEST_CASE("what a recipe lacks is refused by name") {
  Recipe<TinyOptions> recipe = {.name = "tiny", .description = ""};
  RecipeFlags flags;
  CHECK(CheckHas(recipe, flags) == absl::OkStatus());
  flags.plan = true;
  CHECK(CheckHas(recipe, flags) == absl::InvalidArgumentError("--plan: tiny has none"));
  flags = {};
  flags.dry_run = true;
  CHECK(CheckHas(recipe, flags) == absl::InvalidArgumentError("--dry_run: tiny has none"));
  recipe.shrink = [](TinyOptions& options) { options.size = 1; };
  CHECK(CheckHas(recipe, flags) == absl::OkStatus());
}

TEST_CASE("a run keeps every option that can be given again, but that it overwrites nothing") {
  TinyOptions options;
  options.trainer.overwrite_output_dir = true;
  const TrainerOptions trainer = TrainerOptionsOf(options);
  CHECK(trainer.overwrite_output_dir);
  options.trainer.overwrite_output_dir = false;
  CHECK(trainer.resolved_config == DescriptionOf(options).Values(/*with_code_only=*/false));
}

TEST_CASE("the step of a dry run is a new run's, and one that the trainer accepts, whatever the config asks for") {
  TrainerOptions asked;
  asked.output_dir = "out";
  asked.overwrite_output_dir = true;
  asked.resume_from_checkpoint = "out/checkpoint-5";
  asked.eval_steps = 100;
  asked.best_model = {.greater_is_better = Switch::kTrue, .load_best_model_at_end = true, .early_stopping_patience = 2};
  asked.save_steps = 10;
  const TrainerOptions step = OneStepInto("there", asked);
  CHECK(CheckOptions(step) == absl::OkStatus());
  CHECK(step.output_dir == "there");
  CHECK(step.max_steps == 1);
  CHECK_FALSE(step.overwrite_output_dir);
  CHECK(step.resume_from_checkpoint.empty());
  CHECK(step.save_strategy == SaveStrategy::kNo);
  CHECK(step.best_model.metric_for_best_model == "loss");
  CHECK_FALSE(step.best_model.load_best_model_at_end);
  asked.best_model.metric_for_best_model = "f1";
  CHECK(OneStepInto("there", asked).best_model.metric_for_best_model == "f1");
}

}  // namespace
}  // namespace distill
