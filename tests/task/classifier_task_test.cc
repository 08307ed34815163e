// Texts of two kinds, told apart by an encoder with a head: labels a row, and accuracy as its evaluation.
#include <torch/nn/functional/loss.h>

#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"
#include "libdistill/nn/encoder_heads.h"
#include "libdistill/task/make_task.h"
#include "tests/support/catch.h"
#include "tests/task/prove_task.h"

namespace distill::classifier_task {
namespace {

namespace F = torch::nn::functional;

// Of label 1 where more words are above 20 than below.
std::shared_ptr<Dataset> Texts(uint64_t seed, int64_t count) {
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) {
    Random random(seed, static_cast<uint64_t>(i));
    const bool label = random.Below(2) == 1;
    std::vector<int32_t> ids = {1};
    for (size_t word = 0, words = 4 + random.Below(5); word < words; ++word) {
      const bool is_high = random.Below(10) == 0 ? !label : label;
      ids.push_back(static_cast<int32_t>((is_high ? 20 : 2) + random.Below(18)));
    }
    samples.push_back(
        {.tensors = {{"ids", HostTensor(std::move(ids))}, {"label", HostTensor(std::vector<int64_t>{label}, {})}}});
  }
  return MakeDataset(std::move(samples), "ids");
}

absl::StatusOr<Batches<TensorBatch>> Deal(const World& world, std::shared_ptr<Dataset> texts) {
  const ShardOptions options{.rows_per_rank = testing::kGlobalRows / world.world_size};
  DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(std::move(texts), world.rank, world.world_size, options));
  return MakeBatches(std::move(sharder), [](auto rows) { return StackRows(rows, {{{"ids"}}}); });
}

torch::Tensor Logits(SequenceClassifier& model, const TensorBatch& batch) {
  TokenInput input{.input_ids = batch["ids"].to(torch::kInt64), .document_starts = {}};
  const torch::Tensor lengths = batch["ids_lengths"].cpu();
  for (int64_t row = 0; row < batch.rows(); ++row) input.document_starts.push_back({0, lengths[row].item<int64_t>()});
  return model.forward(input);
}

absl::StatusOr<testing::TaskToProve> Make(const World& world) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ParseEncoderConfig(R"({
      "model_type": "distilbert", "vocab_size": 40, "dim": 16, "hidden_dim": 32, "n_heads": 2, "n_layers": 2,
      "max_position_embeddings": 16, "initializer_range": 0.2})",
                                                                          "tiny"));
  auto model = std::make_shared<SequenceClassifier>(config, /*labels=*/2, /*seed=*/3);
  DISTILL_ASSIGN_OR_RETURN(auto training, Deal(world, Texts(1, 80)));
  DISTILL_ASSIGN_OR_RETURN(auto held_out, Deal(world, Texts(2, 21)));
  TaskParts<TensorBatch> parts;
  parts.loss_terms = {{"ce"}};
  parts.forward = [model](const TensorBatch& batch) {
    const auto sum = F::CrossEntropyFuncOptions().reduction(torch::kSum);
    return Losses{{"ce", F::cross_entropy(Logits(*model, batch), batch["label"], sum), batch.rows()}};
  };
  parts.evaluate = [model](const TensorBatch& batch, Metrics& metrics) {
    const torch::Tensor right = Logits(*model, batch).argmax(1).eq(batch["label"]);
    metrics.Mean("accuracy", right.sum(), batch.rows());
  };
  auto task = MakeTask(std::move(training), std::move(parts));
  task->SetHeldOut(std::move(held_out));
  return testing::TaskToProve{model, std::move(task)};
}

TEST_CASE("a sequence classifier is trained, its accuracy taken over all ranks, killed and resumed") {
  testing::ProveTask(Make, {.learning_rate = 0.01, .steps = 24, .metric = "accuracy", .at_least = 0.8});
}

}  // namespace
}  // namespace distill::classifier_task
