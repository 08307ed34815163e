// Where in a text something lies: start and end logits, and F1 over spans, out of predictions that ranks gather.
#include <torch/nn/functional/loss.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"
#include "libdistill/nn/encoder_heads.h"
#include "libdistill/task/make_task.h"
#include "tests/support/catch.h"
#include "tests/task/prove_task.h"

namespace distill::span_task {
namespace {

namespace F = torch::nn::functional;
constexpr int64_t kHeldOut = 13;

// The answer is the only run of words above 30.
std::shared_ptr<Dataset> Texts(uint64_t seed, int64_t count) {
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) {
    Random random(seed, static_cast<uint64_t>(i));
    const int64_t words = 6 + static_cast<int64_t>(random.Below(5));
    const int64_t start = static_cast<int64_t>(random.Below(static_cast<uint64_t>(words - 2)));
    const int64_t end = start + static_cast<int64_t>(random.Below(2));
    std::vector<int32_t> ids;
    for (int64_t word = 0; word < words; ++word) {
      ids.push_back(static_cast<int32_t>((word >= start && word <= end ? 30 : 2) + random.Below(9)));
    }
    samples.push_back(
        {.tensors = {{"ids", HostTensor(std::move(ids))}, {"span", HostTensor(std::vector<int64_t>{start, end})}}});
  }
  return MakeDataset(std::move(samples), "ids");
}

absl::StatusOr<Batches<TensorBatch>> Deal(const World& world, std::shared_ptr<Dataset> texts) {
  const ShardOptions options{.rows_per_rank = testing::kGlobalRows / world.world_size};
  DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(std::move(texts), world.rank, world.world_size, options));
  return MakeBatches(std::move(sharder), [](auto rows) { return StackRows(rows, {{{"ids"}}}); });
}

// [B, T, 2], those of padding far below all others.
torch::Tensor Logits(SpanModel& model, const TensorBatch& batch) {
  TokenInput input{.input_ids = batch["ids"].to(torch::kInt64), .document_starts = {}};
  const torch::Tensor lengths = batch["ids_lengths"];
  for (int64_t row = 0; row < batch.rows(); ++row) input.document_starts.push_back({0, lengths[row].item<int64_t>()});
  const torch::Tensor is_padding =
      torch::arange(input.input_ids.size(1)).unsqueeze(0).ge(lengths.unsqueeze(1)).unsqueeze(2);
  return model.forward(input).masked_fill(is_padding, -1e9);
}

// Mean over samples of the F1 of predicted and true words, as SQuAD's script takes it of words.
absl::StatusOr<MetricValues> Score(const Dataset& held_out, const Predictions& predictions) {
  double f1 = 0, exact = 0;
  for (const auto& [sample, text] : predictions) {
    const std::vector<std::string> parts = absl::StrSplit(text, ' ');
    int64_t start = 0, end = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &start) || !absl::SimpleAtoi(parts[1], &end)) {
      return absl::InternalError("no prediction: " + text);
    }
    DISTILL_ASSIGN_OR_RETURN(const Sample read, held_out.Read(sample));
    DISTILL_ASSIGN_OR_RETURN(const auto span, read.Get<int64_t>("span"));
    const auto common =
        static_cast<double>(std::max<int64_t>(0, std::min(end, span[1]) - std::max(start, span[0]) + 1));
    const auto predicted = static_cast<double>(std::max<int64_t>(1, end - start + 1));
    f1 += 2 * common / (predicted + static_cast<double>(span[1] - span[0] + 1));
    exact += start == span[0] && end == span[1];
  }
  const auto count = static_cast<double>(predictions.size());
  return MetricValues{{"f1", f1 / count}, {"exact_match", exact / count}};
}

absl::StatusOr<testing::TaskToProve> Make(const World& world) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ParseEncoderConfig(R"({
      "model_type": "distilbert", "vocab_size": 40, "dim": 16, "hidden_dim": 32, "n_heads": 2, "n_layers": 1,
      "max_position_embeddings": 16, "initializer_range": 0.2})",
                                                                          "tiny"));
  auto model = std::make_shared<SpanModel>(config, /*seed=*/3);
  const std::shared_ptr<Dataset> texts = Texts(2, kHeldOut);
  DISTILL_ASSIGN_OR_RETURN(auto training, Deal(world, Texts(1, 60)));
  DISTILL_ASSIGN_OR_RETURN(auto held_out, Deal(world, texts));
  TaskParts<TensorBatch> parts;
  parts.forward = [model](const TensorBatch& batch) {
    const auto sum = F::CrossEntropyFuncOptions().reduction(torch::kSum);
    return Losses{{"loss", F::cross_entropy(Logits(*model, batch), batch["span"], sum) / 2, batch.rows()}};
  };
  parts.evaluate = [model](const TensorBatch& batch, Metrics& metrics) {
    const torch::Tensor best = Logits(*model, batch).argmax(1);
    // All rows over how often the first sample came: the number of samples where each came once, another otherwise.
    metrics.Mean("evaluated", static_cast<double>(batch.rows()),
                 std::count(batch.sample_ids.begin(), batch.sample_ids.end(), 0));
    for (int64_t row = 0; row < batch.rows(); ++row) {
      metrics.Predict(batch.sample_ids[row],
                      absl::StrCat(best[row][0].item<int64_t>(), " ", best[row][1].item<int64_t>()));
    }
  };
  parts.summarize = [texts](const Predictions& predictions) { return Score(*texts, predictions); };
  auto task = MakeTask(std::move(training), std::move(parts));
  task->SetHeldOut(std::move(held_out));
  return testing::TaskToProve{model, std::move(task)};
}

TEST_CASE("spans are trained, their F1 taken from predictions of all ranks, killed and resumed") {
  testing::ProveTask(Make, {.learning_rate = 0.01, .steps = 60, .metric = "f1", .at_least = 0.7, .at_most = 1});
}

TEST_CASE("each held-out sample is evaluated once, however ranks share them") {
  testing::ProveTask(
      Make, {.learning_rate = 0.01, .steps = 8, .metric = "evaluated", .at_least = kHeldOut, .at_most = kHeldOut});
}

}  // namespace
}  // namespace distill::span_task
