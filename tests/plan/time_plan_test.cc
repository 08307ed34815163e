#include "libdistill/plan/time_plan.h"

#include "absl/strings/match.h"
#include "libdistill/plan/batch_table.h"
#include "libdistill/plan/report_numbers.h"
#include "tests/support/catch.h"

namespace distill::time_plan {
namespace {

EncoderConfig Bert(const char* type, int64_t layers) {
  EncoderConfig config;
  config.model_type = type;
  config.vocab_size = 30522;
  config.hidden_size = 768;
  config.intermediate_size = 3072;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 12;
  config.type_vocab_size = type == std::string("bert") ? 2 : 0;
  return config;
}

// The sizes of the brain-to-text recipe.
PlannedModel BrainToText() {
  return Planned(GruOptions{.features = 512 * 14, .hidden = 1024, .layers = 5, .classes = 41, .dropout = 0.4}, 60);
}

MemoryPlanTask DistilBert() {
  MemoryPlanTask task{.student = Planned(Bert("distilbert", 6), EncoderUse::kWords),
                      .teacher = Planned(Bert("bert", 12), EncoderUse::kWords)};
  task.rows = 32;
  task.length = 512;
  task.dtype = torch::kBFloat16;
  task.dropout = task.keeps_teacher_states = true;
  task.losses_are_final = false;
  return task;
}

std::string Cost(const CostTask& task, PlanFlags flags, const World& world = {}) {
  flags.plan = true;
  const auto job = JobOf(flags, world);
  REQUIRE(job.ok());
  const auto text = DescribeCost(task, flags, *job);
  INFO(text.status());
  REQUIRE(text.ok());
  return *text;
}

TEST_CASE("150,000 steps of 0.6 s at $1.212 an hour are 25 hours and $30.30") {
  CHECK(Cents(Dollars(150000, 0.6, 1.212)) == "30.30");
  const CostTask task{.memory = {.student = BrainToText(), .rows = 48, .length = 125}, .steps = 150000};
  const std::string text = Cost(task, {.instance = "g5.2xlarge", .seconds_per_step = 0.6});
  INFO(text);
  CHECK(absl::StrContains(text, "150,000 steps x 0.6 s = 25.0 hours; x $1.212 an hour = $30.30"));
  CHECK(absl::StrContains(text, "as measured"));
  const std::string here = Cost(task, {.seconds_per_step = 0.6});
  INFO(here);
  CHECK(absl::StrContains(here, "150,000 steps x 0.6 s = 25.0 hours, as measured"));
  CHECK_FALSE(absl::StrContains(here, "$"));
}

TEST_CASE("a step counts a student three times forward, four where it recomputes, and a teacher once") {
  MemoryPlanTask task = DistilBert();
  const double tokens = 32 * 512;
  const double student = tokens * task.student.forward_flops(512), teacher = tokens * task.teacher->forward_flops(512);
  CHECK(FlopsOfStep(task).student == Approx(3 * student));
  CHECK(FlopsOfStep(task).teacher == Approx(teacher));
  task.gradient_checkpointing = true;
  task.accumulation_steps = 4;
  CHECK(FlopsOfStep(task).student == Approx(16 * student));
  CHECK(FlopsOfStep(task).sum() == Approx(16 * student + 4 * teacher));
  // 2 a weight: DistilBERT multiplies its 66 million but for positions, norms and biases.
  CHECK(task.student.forward_flops(512) == Approx(2 * 66.5e6 + 4.0 * 768 * 6 * 512).epsilon(0.01));
}

TEST_CASE("time is operations over a share of the peak, or what the network takes between instances") {
  const auto instances = ReadInstances("");
  REQUIRE(instances.ok());
  const Instance a10g = *FindInstance(*instances, "g5.2xlarge"), v100 = *FindInstance(*instances, "p3.2xlarge");
  CHECK(PeakFlops(a10g, torch::kBFloat16) == 70e12);
  CHECK(PeakFlops(a10g, torch::kFloat32) == 35e12);
  CHECK(PeakFlops(v100, torch::kBFloat16) == 125e12);  // in float16: it has no bfloat16
  MemoryPlanTask task = DistilBert();
  const TimeOfStep alone = TimeOn(a10g, task, 0.5);
  CHECK(alone.compute_seconds == Approx(FlopsOfStep(task).sum() / 35e12));
  CHECK(alone.network_seconds == 0);
  task.world_size = task.ranks_per_host = 4;
  CHECK(InstancesFor(a10g, task) == 4);
  CHECK(InstancesFor(*FindInstance(*instances, "g5.12xlarge"), task) == 1);
  task.ranks_per_host = 2;
  CHECK(InstancesFor(*FindInstance(*instances, "g5.12xlarge"), task) == 2);
  const auto bytes = 4.0 * static_cast<double>(task.student.elements());
  CHECK(TimeOn(a10g, task, 0.5).network_seconds == Approx(2 * 0.75 * bytes * 8 / 10e9));
  task.rows = task.length = 1;
  CHECK(TimeOn(a10g, task, 0.5).seconds() == TimeOn(a10g, task, 0.5).network_seconds);
}

TEST_CASE("a plan on CPUs measures their products, and goes on with every instance") {
  CostTask task{.memory = DistilBert(), .steps = 1000};
  task.memory.dtype = torch::kFloat32;
  const std::string text = Cost(task, {});
  INFO(text);
  for (const char* part : {"On CPUs like this one: 1,000 steps x ", "(measured now, with ", "g4dn.xlarge",
                           "p5en.48xlarge", "list prices", "That share is an assumption"}) {
    CHECK(absl::StrContains(text, part));
  }
  task.steps = 0;
  CHECK(absl::StrContains(Cost(task, {}), "depends on the data: sums are of 1,000"));
  CHECK_FALSE(absl::StrContains(Cost(task, {.efficiency = 0.2}), "assumption"));
  task.memory.rows = 512;
  CHECK(absl::StrContains(Cost(task, {}), "does not fit of 16 GB"));
}

TEST_CASE("several instances cost as many times as much") {
  CostTask task{.memory = DistilBert(), .steps = 1000};
  task.memory.world_size = 16;
  task.memory.ranks_per_host = 4;
  const std::string text = Cost(task, {.world_size = 16, .instance = "g5.12xlarge", .seconds_per_step = 3.6});
  INFO(text);
  CHECK(absl::StrContains(text, "On 4 x g5.12xlarge"));
  CHECK(absl::StrContains(text, "x $22.688 an hour = $22.69"));
}

TEST_CASE("each size of GPU gets the largest power of two that fits, and micro-batches up to the global batch") {
  const BatchTable table{.memory = DistilBert()};
  const auto rows = PlanBatches(table);
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 5);
  int64_t before = 0;
  for (const BatchRow& row : *rows) {
    INFO(row.gpu_memory_gb << " GB: " << row.batch);
    REQUIRE(row.batch > 0);
    CHECK((row.batch & (row.batch - 1)) == 0);
    CHECK(row.batch >= before);
    before = row.batch;
    CHECK(row.accumulation * row.batch == 4096);
    CHECK(row.effective_batch == 4096);
    MemoryPlanTask task = DistilBert();
    task.on_gpu = true;
    task.rows = row.batch;
    CHECK(PlanMemory(task)->rank_bytes() == row.rank_bytes);
    CHECK(row.rank_bytes <= UsableBytes(static_cast<double>(row.gpu_memory_gb)));
    task.rows *= 2;
    CHECK(PlanMemory(task)->rank_bytes() > UsableBytes(static_cast<double>(row.gpu_memory_gb)));
  }
  const std::string text = DescribeBatches(table, *rows);
  INFO(text);
  CHECK(absl::StrContains(text, "A global batch of 4,096 rows of 512 tokens on 1 GPU(s)"));
  CHECK(absl::StrContains(text, "80 GB"));
}

TEST_CASE("where a global batch does not divide, the nearest lower multiple is taken") {
  BatchTable table{.memory = DistilBert(), .global_batch_size = 4096, .gpus = 3, .gpu_memory_gb = {24, 1}};
  const auto rows = PlanBatches(table);
  REQUIRE(rows.ok());
  const BatchRow& row = rows->front();
  CHECK(row.effective_batch == 3 * 1365);
  CHECK(row.batch * row.accumulation >= 1365);
  CHECK(row.batch * (row.accumulation - 1) < 1365);
  CHECK(rows->back().batch == 0);
  CHECK(absl::StrContains(DescribeBatches(table, *rows), "none fits"));
  CHECK_FALSE(absl::StrContains(DescribeBatches(table, *rows), "this run"));
  table.has_run = true;
  table.memory.rows = 32;
  table.memory.accumulation_steps = 43;
  table.memory.on_gpu = true;
  const auto with_run = PlanBatches(table);
  REQUIRE(with_run.ok());
  REQUIRE(with_run->size() == 3);
  const BatchRow& run = with_run->back();
  CHECK(run.batch == 32);
  CHECK(run.accumulation == 43);
  CHECK(run.effective_batch == 3 * 1365);
  CHECK(run.rank_bytes == PlanMemory(table.memory)->rank_bytes());
  CHECK(absl::StrContains(DescribeBatches(table, *with_run),
                          "    this run           32               43              4,095"));
  table.gpus = 5000;
  CHECK(absl::StrContains(PlanBatches(table).status().message(), "global_batch_size: 4096"));
}

TEST_CASE("inference takes the weights, in 32 or 16 bits, and a pass") {
  const PlannedModel teacher = Planned(Bert("bert", 12), EncoderUse::kWords);
  const PlannedModel student = Planned(Bert("distilbert", 6), EncoderUse::kWords);
  const std::string text = DescribeInference(teacher, student, 512);
  INFO(text);
  // transformers counts 109,514,298 and 66,985,530.
  CHECK(teacher.elements() == 109514298);
  CHECK(student.elements() == 66985530);
  CHECK(absl::StrContains(text, "0.61 of the teacher's parameters"));
  CHECK(absl::StrContains(text, "417.8"));  // MiB of the teacher in float32
  CHECK(absl::StrContains(text, "127.8"));  // of the student in 16 bits
}

}  // namespace
}  // namespace distill::time_plan
