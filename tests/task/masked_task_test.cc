// DistilBERT's three losses as a task: KL and cosine count tokens, MLM counts masked words, and each is a mean of its
// own over ranks that have other numbers of both.
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/mlm_masking.h"
#include "libdistill/nn/encoder.h"
#include "libdistill/task/distiller.h"
#include "tests/support/catch.h"
#include "tests/task/prove_task.h"

namespace distill::masked_task {
namespace {

constexpr int32_t kMask = 3;

absl::StatusOr<std::shared_ptr<Encoder>> TinyEncoder(const std::string& layers, uint64_t seed) {
  DISTILL_ASSIGN_OR_RETURN(
      const EncoderConfig config,
      ParseEncoderConfig(R"({"model_type": "distilbert", "vocab_size": 61, "dim": 24, "hidden_dim": 40, "n_heads": 4,
                             "max_position_embeddings": 32, "initializer_range": 0.3, "n_layers": )" +
                             layers + "}",
                         "tiny"));
  return std::make_shared<Encoder>(config, seed);
}

std::shared_ptr<Dataset> Words(uint64_t seed, int64_t count) {
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) {
    Random random(seed, static_cast<uint64_t>(i));
    std::vector<int32_t> ids;
    for (size_t word = 0, words = 4 + random.Below(9); word < words; ++word) {
      ids.push_back(static_cast<int32_t>(5 + random.Below(50)));
    }
    samples.push_back({.tensors = {{"ids", HostTensor(std::move(ids))}}});
  }
  return MakeDataset(std::move(samples), "ids");
}

// Rows of which some have no masked word at all.
absl::StatusOr<TokenBatches> Deal(const World& world, std::shared_ptr<Dataset> words, ShardOptions options) {
  options.accumulation_steps = testing::kGlobalRows / world.world_size;
  DISTILL_ASSIGN_OR_RETURN(const MlmMasking masking,
                           MlmMasking::Create({.mask_id = kMask, .size = 61}, {.mlm_probability = 0.2, .seed = 7}));
  return TokenBatches::CreateMasked(std::move(words), world.rank, world.world_size, options, masking);
}

absl::StatusOr<testing::TaskToProve> MakeWith(const World& world, const ShardOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(auto teacher, TinyEncoder("2", 1));
  DISTILL_ASSIGN_OR_RETURN(auto student, TinyEncoder("1", 2));
  DISTILL_ASSIGN_OR_RETURN(auto training, Deal(world, Words(1, 30), options));
  DISTILL_ASSIGN_OR_RETURN(auto held_out, Deal(world, Words(2, 9), ForEvaluation(options)));
  DISTILL_ASSIGN_OR_RETURN(auto task, MaskedDistiller::Create(teacher, student, std::move(training), {}));
  task->SetHeldOut(std::move(held_out));
  return testing::TaskToProve{student, std::move(task)};
}

absl::StatusOr<testing::TaskToProve> Make(const World& world) { return MakeWith(world, {}); }
absl::StatusOr<testing::TaskToProve> MakeGrouped(const World& world) {
  return MakeWith(world, {.group_by_length = true});
}
absl::StatusOr<testing::TaskToProve> MakeWithBudget(const World& world) {
  return MakeWith(world, {.group_by_length = true, .max_tokens_per_batch = 24, .max_length = 12});
}

TEST_CASE("DistilBERT's three losses are trained, evaluated, killed and resumed, each by its own count") {
  testing::ProveTask(Make, {.learning_rate = 0.01, .steps = 20, .metric = "kl", .at_most = 0.9});
}

TEST_CASE("grouped by length, one and several ranks train to the same losses, and resume in mid-epoch") {
  testing::ProveTask(MakeGrouped, {.learning_rate = 0.01, .steps = 20, .metric = "kl", .at_most = 0.95});
}

TEST_CASE("with a budget of tokens, one and several ranks train to the same losses, and resume in mid-epoch") {
  testing::ProveTask(MakeWithBudget, {.learning_rate = 0.01, .steps = 20, .metric = "kl", .at_most = 0.95});
}

}  // namespace
}  // namespace distill::masked_task
