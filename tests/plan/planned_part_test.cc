// What a plan says of a decoder of which a part is trained, against what LibTorch's allocator is asked for, and against
// operations counted by hand.
#include <memory>

#include "absl/strings/strip.h"
#include "libdistill/nn/adapters.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/plan/memory_plan.h"
#include "libdistill/plan/time_plan.h"
#include "libdistill/task/logit_distillation.h"
#include "libdistill/task/unfreeze.h"
#include "tests/plan/counted_tensors.h"
#include "tests/plan/decoder_shape.h"
#include "tests/support/catch.h"

namespace distill::planned_part {
namespace {

constexpr int64_t kHidden = 256, kLayers = 4, kWords = 6000, kRows = 2, kLength = 256, kTokens = kRows * kLength;

DecoderConfig Shape(bool is_tied = true) {
  DecoderConfig config = testing::DecoderShape(kWords, kHidden, kLayers);
  config.tie_word_embeddings = is_tied;
  config.query_key_value_bias = false;
  return config;
}

// Patterns, or "lora " and targets.
void Choose(const std::string& part, double dropout, Decoder& model) {
  absl::string_view targets = part;
  const bool has_adapters = absl::ConsumePrefix(&targets, "lora ");
  const auto adapters = AdapterOptions{.rank = 24, .dropout = dropout, .targets = std::string(targets)};
  REQUIRE((has_adapters ? AddAdapters(adapters, model) : UnfreezeOnly({{part, "test:1"}}, model)).ok());
}

PlannedModel PartBy(const std::string& part, bool is_tied = true) {
  const auto shapes = DecoderShapes(Shape(is_tied), torch::kFloat32);
  Choose(part, 0, *shapes);
  return PlannedPart(Shape(is_tied), *shapes);
}

void CheckActivations(const std::string& part, bool recomputes, double dropout = 0) {
  INFO(part << ", recomputes " << recomputes << ", dropout " << dropout);
  const auto tensors = std::make_shared<Tensors>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, tensors);
  const auto student = std::make_shared<Decoder>(Shape());
  Choose(part, dropout, *student);
  if (recomputes) student->EnableGradientCheckpointing();
  const auto distiller = LogitDistillation::CreateLive(nullptr, student, {.alpha = 0});
  REQUIRE(distiller.ok());
  TokenBatch batch;
  batch.rows = kRows;
  batch.length = kLength;
  batch.input_ids.assign(kTokens, 5);
  batch.labels.assign(kTokens, 6);
  batch.document_starts.assign(kRows, {0, kLength});
  const PlannedModel planned = PartBy(part);
  const PassMemory memory = planned.memory({.tokens = kTokens, .several_lengths = false, .recomputes = recomputes});
  const LossMemory loss_memory = MemoryOf(LossShape{.tokens = kTokens,
                                                    .chunk_tokens = 256,
                                                    .vocabulary = kWords,
                                                    .student_rows = kWords,
                                                    .student_hidden = kHidden,
                                                    .trains_head = planned.trains_head});
  for (const bool measures : {false, true}) {
    const int64_t before = tensors->now();
    {
      const torch::Tensor hidden = student->Hidden({torch::full({kRows, kLength}, 5, torch::kInt64), {}});
      if (measures) CheckNear("activations", memory.kept_bytes, tensors->now() - before, 0.03);
      tensors->StartAnew();
      hidden.sum().backward();
      const int64_t gradients = planned.elements() * static_cast<int64_t>(sizeof(float));
      if (measures) {
        // Gradients of weights stay here, which go into buckets in a run.
        CHECK(tensors->most() - before < (memory.kept_bytes + memory.backward_bytes + gradients) * 1.05);
      }
      for (const torch::Tensor& parameter : student->parameters()) parameter.mutable_grad() = torch::Tensor();
    }
    tensors->StartAnew();
    const Losses loss = (*distiller)->Forward(batch, {});
    // What is dropped for the widest adapter is more than a little loss takes, where no activations are kept.
    if (measures && !(recomputes && dropout > 0)) {
      CheckNear("the loss", memory.kept_bytes + loss_memory.during_bytes(), tensors->most() - before, 0.03);
    }
  }
}

TEST_CASE("activations of a model that is trained in part take what is counted") {
  for (const bool recomputes : {false, true}) {
    CheckActivations("layers.2.mlp.down_proj", recomputes);
    CheckActivations("layers.(1|3).self_attn.(q|o)_proj", recomputes);
    CheckActivations("layers.3", recomputes);
    CheckActivations("layers.1.self_attn.o_proj", recomputes);
    CheckActivations("layers.1.mlp.up_proj", recomputes);
    CheckActivations("layers.0.post_attention_layernorm", recomputes);
    CheckActivations("norm.weight", recomputes);
    CheckActivations("model.embed_tokens", recomputes);
    for (const double dropout : {0.0, 0.1}) {
      CheckActivations("lora all-linear", recomputes, dropout);
      CheckActivations("lora layers.2.self_attn.q_proj,down_proj", recomputes, dropout);
    }
  }
}

MemoryPlan PlanOf(PlannedModel student, int stage = 0, int ranks = 1) {
  MemoryPlanTask task{.student = std::move(student), .zero_stage = stage, .rows = 4, .length = 256};
  task.world_size = task.ranks_per_host = ranks;
  const auto plan = PlanMemory(task);
  REQUIRE(plan.ok());
  return *plan;
}

int64_t BytesOfKind(const MemoryPlan& plan, const std::string& kind) {
  for (const MemoryPart& part : plan.parts) {
    if (part.kind == kind) return part.bytes;
  }
  return 0;
}

TEST_CASE("a plan has state and gradients of what is trained alone, and all weights") {
  const int64_t all = Planned(Shape()).elements(), trained = 2 * 3 * kHidden * kHidden;
  const PlannedModel part = PartBy("layers.[23].mlp.down_proj");
  CHECK(part.elements() == trained);
  CHECK(part.frozen_elements() == all - trained);
  CHECK_FALSE(part.trains_head);
  for (const auto& [stage, ranks] : {std::pair(0, 1), {0, 4}, {1, 4}, {2, 4}, {3, 4}}) {
    INFO("stage " << stage << ", ranks " << ranks);
    const MemoryPlan plan = PlanOf(part, stage, ranks);
    CheckNear("moments", BytesOfKind(plan, "optimizer's moments"), 8 * trained / (stage > 0 ? ranks : 1), 0.01);
    CHECK(BytesOfKind(plan, "student's frozen weights") == 4 * (all - trained));
    if (stage < 2) CheckNear("gradients", BytesOfKind(plan, "gradients"), 4 * trained, 0.02);
    CHECK(plan.rank_bytes() < PlanOf(Planned(Shape()), stage, ranks).rank_bytes());
  }
}

TEST_CASE("operations of a step are those of what a backward pass gets to") {
  MemoryPlanTask task{.student = Planned(Shape(false)), .rows = 1, .length = 64};
  const double forward = task.student.forward_flops(64), head = 2.0 * kWords * kHidden;
  CHECK(FlopsOfStep(task).student == 64 * 3 * forward);
  task.student = PartBy("^lm_head.weight$", /*is_tied=*/false);
  CHECK(FlopsOfStep(task).student == Approx(64 * (forward + 2 * head)));
  task.student = PartBy("layers.3.mlp.down_proj", /*is_tied=*/false);
  const double wide = 2.0 * 3 * kHidden * kHidden;  // of one matrix of the feed-forward part
  CHECK(FlopsOfStep(task).student == Approx(64 * (forward + head + wide)));
  task.student = PartBy("layers.2.self_attn.q_proj", /*is_tied=*/false);
  const double attention = (forward - task.student.forward_flops(0)) / kLayers, square = 2.0 * kHidden * kHidden;
  const double upper = 3 * square + 3 * wide, lower = square + 3 * wide;  // gradients of what matrices are given
  const double backward = head + upper + lower + 2 * 2 * attention + square;
  CHECK(FlopsOfStep(task).student == Approx(64 * (forward + backward)));
  task.gradient_checkpointing = true;
  CHECK(FlopsOfStep(task).student == Approx(64 * (forward + backward + 2 * (upper + attention))).epsilon(1e-3));
}

}  // namespace
}  // namespace distill::planned_part
