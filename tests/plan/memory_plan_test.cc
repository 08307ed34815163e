// What a plan counts, against what LibTorch's allocator is asked for; whole runs are compared in memory_plan.py.
#include "libdistill/plan/memory_plan.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "libdistill/gradients/adamw.h"
#include "libdistill/loss/loss_memory.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/decoder_family.h"
#include "libdistill/nn/decoder_memory.h"
#include "libdistill/nn/encoder_memory.h"
#include "libdistill/task/logit_distillation.h"
#include "tests/plan/counted_tensors.h"
#include "tests/plan/decoder_shape.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr auto Shape = testing::DecoderShape;

struct Case {
  torch::Dtype dtype;
  bool recomputes, several_lengths;
  bool drops = false;
  DecoderConfig traits = Shape(6000, 256, 4);  // of both models
};

void CheckCase(const Case& c) {
  constexpr int64_t kRows = 2, kLength = 256, kTokens = kRows * kLength, kVocabulary = 6000;
  const auto tensors = std::make_shared<Tensors>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, tensors);
  DecoderConfig config = c.traits;
  config.attention_dropout = c.drops ? 0.1 : 0;
  DecoderConfig of_teacher = c.traits;
  of_teacher.hidden_size = 384, of_teacher.intermediate_size = 3 * 384, of_teacher.head_dim = 96;
  of_teacher.num_hidden_layers = 2;
  const auto student = std::make_shared<Decoder>(config), teacher = std::make_shared<Decoder>(of_teacher);
  student->to(c.dtype);
  teacher->to(c.dtype);
  if (c.recomputes) student->EnableGradientCheckpointing();
  if (c.drops) student->EnableDropout();
  student->train();
  const auto distiller = LogitDistillation::CreateLive(teacher, student, {});
  REQUIRE(distiller.ok());
  TokenBatch batch;
  batch.rows = kRows;
  batch.length = kLength;
  batch.input_ids.assign(kTokens, 5);
  batch.labels.assign(kTokens, 6);
  batch.document_starts.assign(kRows, {0, kLength});
  if (c.several_lengths) batch.document_starts[0] = {0, 100, kLength};
  const int64_t element_bytes = static_cast<int64_t>(torch::elementSize(c.dtype));
  const ProductScratch scratch = ScratchOnCpu(c.dtype);
  const PassMemory memory =
      MemoryOf(config, {kTokens, element_bytes, c.several_lengths, c.recomputes, scratch, c.drops});
  const LossMemory loss_memory = MemoryOf(LossShape{.tokens = kTokens,
                                                    .chunk_tokens = 256,
                                                    .vocabulary = kVocabulary,
                                                    .student_rows = kVocabulary,
                                                    .student_hidden = 256,
                                                    .teacher_hidden = 384,
                                                    .element_bytes = element_bytes,
                                                    .scratch = scratch});
  for (const bool measures : {false, true}) {  // what a first pass makes for all later ones does not count
    const TokenInput input{torch::full({kRows, kLength}, 5, torch::kInt64), batch.document_starts};
    const int64_t before = tensors->now();
    {
      const torch::NoGradGuard no_grad;
      tensors->StartAnew();
      const torch::Tensor hidden = teacher->Hidden(input);
      if (measures) {
        CheckNear("the teacher's pass",
                  MemoryOf(of_teacher, {kTokens, element_bytes, false, false, scratch}).forward_bytes,
                  tensors->most() - before, 0.05);
      }
      student->zero_grad();
    }
    {
      const torch::Tensor hidden = student->Hidden(input);
      if (measures) CheckNear("activations", memory.kept_bytes, tensors->now() - before, 0.03);
      tensors->StartAnew();
      hidden.sum().backward();
      // Gradients of weights stay here, which go into buckets in a run; with checkpoints they are the most.
      if (measures && c.drops && !c.recomputes) {
        CheckNear("the backward pass", memory.kept_bytes + memory.backward_bytes, tensors->most() - before, 0.15);
      }
      student->zero_grad();
    }
    tensors->StartAnew();
    const Losses loss = (*distiller)->Forward(batch, {});
    if (measures) {
      CheckNear("the loss", memory.kept_bytes + loss_memory.during_bytes(), tensors->most() - before, 0.03);
    }
    for (const torch::Tensor& parameter : student->parameters()) parameter.mutable_grad() = torch::Tensor();
  }
}

TEST_CASE("activations, the teacher's pass and the loss take what is counted") {
  for (const bool recomputes : {false, true}) {
    for (const bool several_lengths : {false, true}) {
      INFO("recomputes " << recomputes << ", several lengths " << several_lengths);
      CheckCase({torch::kFloat32, recomputes, several_lengths});
    }
  }
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
    for (const bool recomputes : {false, true}) {
      INFO(dtype << " with dropout, recomputes " << recomputes);
      CheckCase({dtype, recomputes, /*several_lengths=*/false, /*drops=*/true});
    }
  }
  CheckCase({torch::kBFloat16, false, false});
  CheckCase({torch::kBFloat16, true, true});
}

// The traits of a family in the shape of the others here.
DecoderConfig ShapeOf(const std::string& model_type) {
  DecoderConfig config = FindDecoderFamily(model_type)->defaults;
  const DecoderConfig sizes = Shape(6000, 256, 4);
  config.model_type = model_type;
  config.vocab_size = sizes.vocab_size, config.hidden_size = sizes.hidden_size;
  config.intermediate_size = sizes.intermediate_size, config.num_hidden_layers = sizes.num_hidden_layers;
  config.num_attention_heads = sizes.num_attention_heads, config.num_key_value_heads = sizes.num_key_value_heads;
  config.head_dim = sizes.head_dim, config.pad_token_id = -1, config.tie_word_embeddings = true;
  return config;
}

TEST_CASE("the activations of other families take what is counted") {
  for (const std::string family : {"qwen3", "olmo2", "phi3", "gemma2", "gemma3_text"}) {
    for (const bool recomputes : {false, true}) {
      INFO(family << ", recomputes " << recomputes);
      Case c = {torch::kFloat32, recomputes, /*several_lengths=*/false, /*drops=*/false, ShapeOf(family)};
      if (family == "gemma3_text") c.traits.layers.assign(2, {.window = 64});
      CheckCase(c);
    }
  }
}

MemoryPlanTask Task() {
  MemoryPlanTask task;
  task.student = Planned(Shape(30000, 512, 8));
  task.teacher = Planned(Shape(30000, 1024, 8));
  task.rows = 4;
  task.length = 256;
  return task;
}

int64_t BytesOf(const MemoryPlan& plan, const std::string& kind) {
  for (const MemoryPart& part : plan.parts) {
    if (part.kind == kind) return part.bytes;
  }
  return 0;
}

TEST_CASE("a plan holds the state of each stage, whole and sharded") {
  MemoryPlanTask task = Task();
  // Deep enough that what stage 2 saves in gradients of blocks is more than the head's, which stage 1 makes in its
  // bucket.
  task.student = Planned(Shape(30000, 512, 16));
  const int64_t elements = task.student.elements();
  const auto plan_of = [&](bool bf16, int stage, int ranks) {
    task.dtype = bf16 ? torch::kBFloat16 : torch::kFloat32;
    task.zero_stage = stage;
    task.world_size = task.ranks_per_host = ranks;
    const auto plan = PlanMemory(task);
    REQUIRE(plan.ok());
    return *plan;
  };
  for (const int stage : {0, 1, 2}) {
    for (const int ranks : {1, 16}) {
      for (const bool bf16 : {false, true}) {
        INFO("stage " << stage << ", ranks " << ranks << ", bf16 " << bf16);
        const MemoryPlan plan = plan_of(bf16, stage, ranks);
        const int64_t shares = stage > 0 ? ranks : 1;
        CheckNear("moments", BytesOf(plan, "optimizer's moments"), 8 * elements / shares, 0.01);
        CheckNear("weights", BytesOf(plan, "student's weights"), (bf16 ? 2 : 4) * elements, 0.01);
        CheckNear("teacher", BytesOf(plan, "teacher's weights"), (bf16 ? 2 : 4) * task.teacher->elements(), 0.01);
        CHECK((BytesOf(plan, "student's masters") > 0) == bf16);
        if (stage < 2 || ranks == 1) CheckNear("gradients", BytesOf(plan, "gradients"), 4 * elements, 0.02);
      }
    }
  }
  const int64_t whole = plan_of(true, 0, 16).rank_bytes(), first = plan_of(true, 1, 16).rank_bytes(),
                second = plan_of(true, 2, 16).rank_bytes();
  CHECK(first < whole);
  CHECK(second < first);
  const MemoryPlan third = plan_of(true, 3, 16);
  CHECK(third.rank_bytes() < second);
  CHECK(BytesOf(third, "student's weights") < 2 * elements);
  CHECK(BytesOf(third, "gathered blocks") > 0);
  task.shard_teacher = true;
  CHECK(BytesOf(plan_of(true, 3, 16), "teacher's weights") < task.teacher->elements());
  CHECK(plan_of(true, 2, 1).rank_bytes() == plan_of(true, 0, 1).rank_bytes());  // one rank has nobody to share with
}

TEST_CASE("accumulation costs no second gradient of the head") {
  for (const bool is_tied : {false, true}) {
    MemoryPlanTask task = Task();
    DecoderConfig student = Shape(30000, 512, 8);
    student.tie_word_embeddings = is_tied;
    task.student = Planned(student);
    task.rows = task.length = 8;
    const int64_t once = PlanMemory(task).value().rank_bytes();
    task.accumulation_steps = 8;
    const int64_t head = int64_t{4} * student.vocab_size * student.hidden_size;
    CHECK(PlanMemory(task).value().rank_bytes() - once < head / 20);  // batches, and rows that are looked up
  }
}

TEST_CASE("dropout of attention costs nothing that is kept, on CPUs and GPUs") {
  MemoryPlanTask task = Task();
  DecoderConfig student = Shape(30000, 512, 8);
  student.attention_dropout = 0.1;
  task.student = Planned(student);
  for (const bool on_gpu : {false, true}) {
    task.on_gpu = on_gpu;
    task.dropout = false;
    const int64_t without = BytesOf(PlanMemory(task).value(), "activations");
    task.dropout = true;
    CHECK(BytesOf(PlanMemory(task).value(), "activations") == without);
  }
}

TEST_CASE("on GPUs documents of several lengths are kept once where flash kernels attend to them") {
  const DecoderConfig plain = Shape(6000, 256, 4);
  DecoderConfig capped = plain, odd = plain;
  capped.attention_softcap = 30;
  odd.head_dim = 20;
  const auto grouped = [](const DecoderConfig& config, int64_t element_bytes, bool on_gpu) {
    const auto kept = [&](bool several_lengths) {
      const ModelPass pass{
          .tokens = 512, .element_bytes = element_bytes, .several_lengths = several_lengths, .on_gpu = on_gpu};
      const PassMemory memory = MemoryOf(config, pass);
      return memory.kept_bytes;
    };
    const int64_t all = config.num_hidden_layers * config.num_attention_heads * config.head_dim * 512 * element_bytes;
    return static_cast<double>(kept(true) - kept(false)) / static_cast<double>(all);
  };
  CHECK(grouped(plain, 2, true) == 0);
  CHECK(grouped(plain, 2, false) == 1);
  CHECK(grouped(plain, 4, true) == 1);
  CHECK(grouped(capped, 2, true) == 1);
  CHECK(grouped(odd, 2, true) == 1);
}

TEST_CASE("the backward pass of flash kernels has the query's gradient in float32, of heads in groups of 32 elements") {
  // With next to no other product, so that attention takes most.
  const ModelPass pass{.tokens = 512, .element_bytes = 2, .several_lengths = true, .on_gpu = true};
  DecoderConfig decoder = Shape(6000, 160, 1);
  decoder.intermediate_size = 8;
  CHECK(decoder.head_dim == 40);
  CHECK(MemoryOf(decoder, pass).backward_bytes == 512 * (2 * (160 + 4 * 160 + 2 * 80) + 4 * 4 * 64));
  EncoderConfig encoder;
  encoder.hidden_size = 160;
  encoder.num_attention_heads = 4;
  encoder.intermediate_size = 8;
  encoder.num_hidden_layers = 1;
  CHECK(MemoryOf(encoder, EncoderUse::kWords, pass).backward_bytes == 512 * (2 * 5 * 160 + 4 * 4 * 64));
}

TEST_CASE("the optimizer's state takes what it says itself") {
  const auto tensors = std::make_shared<Tensors>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, tensors);
  const int64_t count = 3000 * 64;
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
    const std::vector<TrainedParameter> parameters = {{.name = "p", .tensor = torch::zeros({3000, 64}, dtype)}};
    const int64_t before = tensors->now();
    const AdamW optimizer(parameters, {});
    const int64_t elements = AdamW::MomentElements(count) + AdamW::MasterElements(count, dtype);
    CHECK(tensors->now() - before == elements * static_cast<int64_t>(sizeof(float)));
  }
}

TEST_CASE("the ranks of a host have the program once") {
  MemoryPlanTask task = Task();
  task.process = {.own_bytes = 100, .shared_bytes = 1000};
  task.world_size = task.ranks_per_host = 4;
  task.zero_stage = 1;
  const auto without = PlanMemory(task);
  REQUIRE(without.ok());
  CHECK(without->host_bytes == 4 * without->rank_bytes() - 3 * 1000);
  CHECK(BytesOf(*without, "program and libraries") == 1100);
  CHECK(without->in_shared_memory_bytes > BytesOf(*without, "gradients"));
}

TEST_CASE("slices on their way between hosts take memory where some host has several ranks") {
  MemoryPlanTask task = Task();
  const auto lanes = [&](int hosts, int ranks_per_host, int stage) {
    task.world_size = hosts * ranks_per_host;
    task.ranks_per_host = ranks_per_host;
    task.zero_stage = stage;
    return BytesOf(PlanMemory(task).value(), "lanes");
  };
  CHECK(lanes(1, 8, 2) == 0);
  CHECK(lanes(8, 1, 2) == 0);
  CHECK(lanes(8, 8, 0) == 0);
  // A slice of the embedding is longer than the 2 MiB that a message between two hosts has at most: two slots of 4 MiB
  // and two of 2 MiB, and 2 MiB of each of the 8 lanes.
  const int64_t two = lanes(2, 8, 2);
  CHECK(two == int64_t{28} << 20);
  CHECK(lanes(2, 8, 3) > two);
  CHECK(lanes(512, 8, 2) < 2 * two);
}

TEST_CASE(
    "on GPUs what a rank's lane keeps is counted in every stage, and does not grow beyond a bound with the hosts") {
  MemoryPlanTask task = Task();
  task.on_gpu = true;
  const auto lanes = [&](int hosts, int ranks_per_host, int stage) {
    task.world_size = hosts * ranks_per_host;
    task.ranks_per_host = ranks_per_host;
    task.zero_stage = stage;
    return BytesOf(PlanMemory(task).value(), "lanes");
  };
  CHECK(lanes(1, 8, 0) == 0);
  // The lane's two slots of 4 MiB, and 16 MiB where the ring's messages land, at least.
  CHECK(lanes(2, 8, 0) > int64_t{24} << 20);
  CHECK(lanes(2, 1, 0) > int64_t{24} << 20);
  CHECK(lanes(2, 8, 2) > lanes(2, 8, 0));
  // Slots of 64 MiB, direct exchange's 64 MiB and the ring's 16 MiB, at most.
  for (const int hosts : {16, 64, 512}) CHECK(lanes(hosts, 8, 0) < int64_t{209} << 20);
}

TEST_CASE("models that are sharded are not there whole when they are loaded") {
  MemoryPlanTask task = Task();
  task.student = Planned(Shape(3000, 512, 48));
  task.teacher = Planned(Shape(3000, 1024, 48));
  task.dtype = torch::kBFloat16;
  task.rows = task.length = 1;
  task.world_size = task.ranks_per_host = 16;
  task.zero_stage = 3;
  const int64_t teacher = 2 * task.teacher->elements(), student = 4 * task.student.elements();
  const auto with_whole_teacher = PlanMemory(task);
  REQUIRE(with_whole_teacher.ok());
  CHECK(with_whole_teacher->rank_bytes() > teacher);
  CHECK(with_whole_teacher->rank_bytes() < teacher + student);
  task.shard_teacher = true;
  const auto plan = PlanMemory(task);
  REQUIRE(plan.ok());
  CHECK(plan->rank_bytes() < (teacher + student) / 2);
}

TEST_CASE("a report says whether it fits, and what would make it smaller") {
  MemoryPlanTask task = Task();
  task.world_size = task.ranks_per_host = 2;
  const auto plan = PlanMemory(task);
  REQUIRE(plan.ok());
  const std::string fits = DescribePlan(task, *plan, {plan->host_bytes, "this host"});
  INFO(fits);
  CHECK(absl::StrContains(fits, "\nIt fits: this host has "));
  CHECK_FALSE(absl::StrContains(fits, "smaller"));
  const std::string not_so = DescribePlan(task, *plan, {plan->host_bytes - 1, "this host"});
  INFO(not_so);
  CHECK(absl::StrContains(not_so, "\nIt does not fit: this host has "));
  for (const char* name : {"bf16: true", "zero_stage: 2", "gradient_checkpointing: true",
                           "per_device_train_batch_size: 2", "one rank a host"}) {
    CHECK(absl::StrContains(not_so, name));
  }
}

TEST_CASE("a model without a head over a vocabulary is planned by its outputs and its last gradient") {
  EncoderConfig config;
  config.model_type = "bert";
  config.vocab_size = 30000;
  config.hidden_size = 256;
  config.intermediate_size = 1024;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  MemoryPlanTask task{.student = Planned(config, EncoderUse::kSpan), .rows = 1, .length = 8};
  const auto alone = PlanMemory(task);
  REQUIRE(alone.ok());
  CHECK(alone->moment == "when the backward pass ends");
  CHECK(BytesOf(*alone, "last gradient") == int64_t{4} * 30000 * 256);
  CHECK(BytesOf(*alone, "gradients of head and hidden states") == 0);
  task.rows = 64;
  task.length = 384;
  const MemoryPlan without = PlanMemory(task).value();
  CHECK(without.moment == "when the backward pass begins");
  task.teacher = task.student;
  const MemoryPlan distilled = PlanMemory(task).value();
  CHECK(BytesOf(distilled, "teacher's answer") == int64_t{4} * 64 * 384 * 2);
  CHECK(distilled.rank_bytes() - without.rank_bytes() ==
        BytesOf(distilled, "teacher's weights") + BytesOf(distilled, "teacher's answer"));
  task.teacher.reset();
  task.world_size = task.ranks_per_host = 8;
  task.zero_stage = 3;
  CHECK(BytesOf(PlanMemory(task).value(), "optimizer's moments") < BytesOf(without, "optimizer's moments") / 7);
}

TEST_CASE("a plan for a GPU has the chunks that a run there chooses, and float32 logits") {
  constexpr int64_t kVocabulary = 320'000, kGb = 1'000'000'000;  // whose logits are most of all
  MemoryPlanTask task = Task();
  task.student = task.teacher.emplace(Planned(Shape(kVocabulary, 64, 1)));
  task.rows = 8;
  task.length = 512;
  task.dtype = torch::kBFloat16;
  task.on_gpu = true;
  const auto of_chunk = [&](int64_t device_bytes, int64_t chunk_tokens) {
    task.device_bytes = device_bytes;
    task.chunk_tokens = chunk_tokens;
    const MemoryPlan plan = PlanMemory(task).value();
    CHECK(plan.moment == "when the loss is taken");
    return BytesOf(plan, "head and loss");
  };
  constexpr int64_t kTokenBytes = 2 * kVocabulary * 4;
  const int64_t most = of_chunk(80 * kGb, 0);
  CHECK(most > 1024 * kTokenBytes);
  CHECK(of_chunk(0, 0) == most);
  CHECK(most - of_chunk(16 * kGb, 0) == (1024 - 373) * kTokenBytes);  // 390, in eleven chunks that are alike
  CHECK(most - of_chunk(16 * kGb, 512) == 512 * kTokenBytes);
  const std::string text = DescribePlan(task, PlanMemory(task).value(), {});
  INFO(text);
  CHECK(absl::StrContains(text, "logits of 512 tokens"));
  // Without wide products: half the logits and no workspace of them, but the head's gradient once more, in bfloat16.
  const int64_t with = of_chunk(16 * kGb, 512);
  task.has_wide_products = false;
  CHECK(of_chunk(16 * kGb, 512) - with == kVocabulary * 64 * 2 - 512 * kTokenBytes / 2 - (32 << 20));
}

TEST_CASE("a plan refuses what no run could be") {
  const auto error = [](auto change) {
    MemoryPlanTask task = Task();
    change(task);
    const absl::Status status = PlanMemory(task).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK(error([](MemoryPlanTask& task) { task.world_size = 0; }) == "world_size: 0 is not above 0");
  CHECK(error([](MemoryPlanTask& task) { task.chunk_tokens = -1; }) == "chunk_tokens: -1 is below 0");
  CHECK(error([](MemoryPlanTask& task) { task.zero_stage = 7; }) == "zero_stage: 7 is not 0, 1, 2 or 3");
  CHECK(error([](MemoryPlanTask& task) {
          task.world_size = 6;
          task.ranks_per_host = 4;
        }) == "world_size 6 is no multiple of ranks_per_host 4: every host has as many ranks");
  CHECK(error([](MemoryPlanTask& task) {
          task.student = Planned(GruOptions{.features = 8, .hidden = 8, .classes = 3}, 4);
          task.teacher.reset();
          task.world_size = task.ranks_per_host = 2;
          task.zero_stage = 3;
        }) == "zero_stage: 3 shards the blocks of a model, and a GRU has none; set 2");
  CHECK(error([](MemoryPlanTask& task) {
          task.teacher.reset();
          task.keeps_teacher_states = true;
        }) == "keeps_teacher_states: there is no teacher");
}

}  // namespace
}  // namespace distill
