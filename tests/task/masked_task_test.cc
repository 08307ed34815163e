// DistilBERT's three losses as a task: KL and cosine count tokens, MLM counts masked words, and each is a mean of its
// own over ranks that have other numbers of both.
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/data_sharder.h"
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

// Hides words as a function of the sample alone, so that it survives resuming: the first row of each batch has none.
absl::StatusOr<TokenBatch> Mask(absl::Span<const SampleRow> rows) {
  TokenBatch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  for (const SampleRow& row : rows) {
    DISTILL_ASSIGN_OR_RETURN(const auto ids, row[0].Get<int32_t>("ids"));
    batch.length = std::max(batch.length, static_cast<int64_t>(ids.size()));
  }
  for (const SampleRow& row : rows) {
    DISTILL_ASSIGN_OR_RETURN(const auto ids, row[0].Get<int32_t>("ids"));
    Random random(7, static_cast<uint64_t>(row[0].id));
    for (int64_t i = 0; i < batch.length; ++i) {
      const bool is_there = i < static_cast<int64_t>(ids.size());
      const bool is_hidden = is_there && row[0].id % 3 != 0 && random.Below(4) == 0;
      batch.input_ids.push_back(!is_there ? 0 : is_hidden ? kMask : ids[i]);
      batch.labels.push_back(is_hidden ? ids[i] : kIgnoreLabel);
    }
    batch.document_starts.push_back({0, static_cast<int64_t>(ids.size())});
    batch.sample_ids.push_back(row[0].id);
  }
  return batch;
}

absl::StatusOr<Batches<TokenBatch>> Deal(const World& world, std::shared_ptr<Dataset> words) {
  const ShardOptions options{.rows_per_rank = 1, .accumulation_steps = testing::kGlobalRows / world.world_size};
  DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(std::move(words), world.rank, world.world_size, options));
  return Batches<TokenBatch>(std::move(sharder), Mask);
}

absl::StatusOr<testing::TaskToProve> Make(const World& world) {
  DISTILL_ASSIGN_OR_RETURN(auto teacher, TinyEncoder("2", 1));
  DISTILL_ASSIGN_OR_RETURN(auto student, TinyEncoder("1", 2));
  DISTILL_ASSIGN_OR_RETURN(auto training, Deal(world, Words(1, 30)));
  DISTILL_ASSIGN_OR_RETURN(auto held_out, Deal(world, Words(2, 9)));
  DISTILL_ASSIGN_OR_RETURN(auto task, MaskedDistiller::Create(teacher, student, std::move(training), {}));
  task->SetHeldOut(std::move(held_out));
  return testing::TaskToProve{student, std::move(task)};
}

TEST_CASE("DistilBERT's three losses are trained, evaluated, killed and resumed, each by its own count") {
  testing::ProveTask(Make, {.learning_rate = 0.01, .steps = 20, .metric = "kl", .at_most = 0.9});
}

}  // namespace
}  // namespace distill::masked_task
