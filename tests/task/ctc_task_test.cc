// Float frames of different lengths, of which a recurrent net spells shorter targets: CTC, and the error rate of what
// it spells, out of gathered predictions.
#include <ATen/ops/ctc_loss.h>

#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"
#include "libdistill/nn/gru.h"
#include "libdistill/task/make_task.h"
#include "tests/support/catch.h"
#include "tests/task/prove_task.h"

namespace distill::ctc_task {
namespace {

constexpr int64_t kFeatures = 4;  // one for each class, of which 0 is the blank

// Each target is two or three frames of its own feature, and one of nothing.
std::shared_ptr<Dataset> Recordings(uint64_t seed, int64_t count) {
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) {
    Random random(seed, static_cast<uint64_t>(i));
    std::vector<int64_t> targets;
    std::vector<float> frames;
    for (size_t target = 0, all = 1 + random.Below(4); target < all; ++target) {
      targets.push_back(1 + static_cast<int64_t>(random.Below(kFeatures - 1)));
      for (size_t frame = 0, held = 2 + random.Below(2); frame <= held; ++frame) {
        for (int64_t f = 0; f < kFeatures; ++f) {
          const double level = f == (frame == held ? 0 : targets.back()) ? 1 : 0;
          frames.push_back(static_cast<float>(level + 0.1 * random.Uniform()));
        }
      }
    }
    const auto length = static_cast<int64_t>(frames.size()) / kFeatures;
    samples.push_back({.tensors = {{"features", HostTensor(std::move(frames), {length, kFeatures})},
                                   {"targets", HostTensor(std::move(targets))}}});
  }
  return MakeDataset(std::move(samples), "features");
}

absl::StatusOr<Batches<TensorBatch>> Deal(const World& world, std::shared_ptr<Dataset> recordings) {
  const ShardOptions options{.rows_per_rank = testing::kGlobalRows / world.world_size};
  DISTILL_ASSIGN_OR_RETURN(auto sharder,
                           DataSharder::Create(std::move(recordings), world.rank, world.world_size, options));
  return MakeBatches(std::move(sharder), [](auto rows) { return StackRows(rows, {{{"features"}, {"targets"}}}); });
}

// What greedy decoding spells of [T, C], as a text of digits: repeats once, blanks not at all.
std::string Spell(const torch::Tensor& log_probabilities) {
  const torch::Tensor best = log_probabilities.argmax(1);
  std::string text;
  for (int64_t t = 0, before = 0; t < best.size(0); ++t) {
    const int64_t now = best[t].item<int64_t>();
    if (now != 0 && now != before) absl::StrAppend(&text, now);
    before = now;
  }
  return text;
}

int64_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = std::exchange(row[0], static_cast<int64_t>(i));
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

absl::StatusOr<MetricValues> Score(const Dataset& held_out, const Predictions& predictions) {
  double errors = 0, targets = 0;
  for (const auto& [sample, spelled] : predictions) {
    DISTILL_ASSIGN_OR_RETURN(const Sample read, held_out.Read(sample));
    DISTILL_ASSIGN_OR_RETURN(const auto wanted, read.Get<int64_t>("targets"));
    std::string text;
    for (const int64_t target : wanted) absl::StrAppend(&text, target);
    errors += static_cast<double>(EditDistance(spelled, text));
    targets += static_cast<double>(wanted.size());
  }
  return MetricValues{{"error_rate", errors / targets}};
}

absl::StatusOr<testing::TaskToProve> Make(const World& world) {
  auto model = std::make_shared<GruCtc>(GruOptions{.features = kFeatures, .hidden = 16, .classes = kFeatures});
  const std::shared_ptr<Dataset> recordings = Recordings(2, 11);
  DISTILL_ASSIGN_OR_RETURN(auto training, Deal(world, Recordings(1, 40)));
  DISTILL_ASSIGN_OR_RETURN(auto held_out, Deal(world, recordings));
  TaskParts<TensorBatch> parts;
  parts.forward = [model](const TensorBatch& batch) {
    const auto [log_probabilities, lengths] = model->forward(batch["features"], batch["features_lengths"]);
    const torch::Tensor sum = at::ctc_loss(log_probabilities, batch["targets"], lengths, batch["targets_lengths"],
                                           /*blank=*/0, at::Reduction::Sum);
    return Losses{{"loss", sum, batch.rows()}};
  };
  parts.evaluate = [model](const TensorBatch& batch, Metrics& metrics) {
    const auto [log_probabilities, lengths] = model->forward(batch["features"], batch["features_lengths"]);
    for (int64_t row = 0; row < batch.rows(); ++row) {
      const torch::Tensor of_row = log_probabilities.select(1, row).narrow(0, 0, lengths[row].item<int64_t>());
      metrics.Predict(batch.sample_ids[row], Spell(of_row));
    }
  };
  parts.summarize = [recordings](const Predictions& predictions) { return Score(*recordings, predictions); };
  auto task = MakeTask(std::move(training), std::move(parts));
  task->SetHeldOut(std::move(held_out));
  return testing::TaskToProve{model, std::move(task)};
}

TEST_CASE("CTC over frames of different lengths is trained, its error rate gathered, killed and resumed") {
  testing::ProveTask(Make, {.learning_rate = 0.02, .steps = 60, .metric = "error_rate", .at_most = 0.3});
}

}  // namespace
}  // namespace distill::ctc_task
