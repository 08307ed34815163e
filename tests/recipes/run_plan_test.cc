#include "examples/recipe/run_plan.h"

#include "absl/strings/match.h"
#include "libdistill/plan/planned_model.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

RunPlan TinyPlan() {
  EncoderConfig config;
  config.model_type = "distilbert";
  config.vocab_size = 1000;
  config.hidden_size = 64;
  config.intermediate_size = 256;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  RunPlan plan;
  plan.memory.student = Planned(config, EncoderUse::kClass);
  plan.memory.rows = 8;
  plan.memory.length = 32;
  plan.samples = 1000;
  return plan;
}

std::string Text(const TrainerOptions& trainer, PlanFlags flags) {
  flags.plan = true;
  const auto text = DescribeRun(TinyPlan(), trainer, DeviceChoice::kCpu, flags, World());
  INFO(text.status());
  REQUIRE(text.ok());
  return *text;
}

TEST_CASE("a recipe's plan is of the job that the flags name, with memory, hours and price") {
  TrainerOptions trainer;
  trainer.max_steps = 150000;
  trainer.bf16 = Switch::kAuto;
  const std::string text = Text(trainer, {.instance = "g5.2xlarge", .seconds_per_step = 0.6});
  INFO(text);
  CHECK(absl::StrContains(text, "Memory of 1 rank(s), 1 on each host, on GPUs: 16 bits a weight"));
  CHECK(absl::StrContains(text, "It fits: a GPU of a g5.2xlarge has 20.7 GiB"));
  CHECK(absl::StrContains(text, "= $30.30"));
  CHECK(absl::StrContains(Text(trainer, {.instance = "g4dn.xlarge"}), "on GPUs: float32"));  // it has no bfloat16
  trainer.fp16 = true;
  CHECK(absl::StrContains(Text(trainer, {.instance = "g4dn.xlarge"}), "(T4 in float16)"));
}

TEST_CASE("without max_steps the samples of an epoch give the steps") {
  TrainerOptions trainer;
  trainer.num_train_epochs = 2;
  const std::string text = Text(trainer, {.seconds_per_step = 1});
  INFO(text);
  CHECK(absl::StrContains(text, "on CPUs"));
  CHECK(absl::StrContains(text, "250 steps x 1 s"));  // twice 125 of 8 rows
  CHECK(absl::StrContains(Text(trainer, {.world_size = 4, .seconds_per_step = 1}), "64 steps x 1 s"));
}

TEST_CASE("text takes memory by the size of its files, also of folders of them") {
  const testing::TempFolder folder;
  const std::string file = folder.Write("a.jsonl", std::string(3000, 'x'));
  folder.Write("b.csv", std::string(300, 'x'));
  folder.Write("model.safetensors", std::string(9000, 'x'));
  CHECK(TextBytes({file}) == DataSetBytes(3000));
  CHECK(TextBytes({folder.path(), folder / "none.jsonl"}) == DataSetBytes(3300));
}

}  // namespace
}  // namespace distill
