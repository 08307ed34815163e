// What a task's evaluation runs and reads, what it makes of the means, and what a trainer refuses of a task's names and
// positions.
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/comm/create.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/task/make_task.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/counted_task.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

constexpr int64_t kSamples = 7;

struct Number : torch::nn::Module {
  Number() { value = register_parameter("value", torch::ones({1})); }
  torch::Tensor value;
};

// Of which every third sample has a label; it counts what is read.
class Watched : public Dataset {
 public:
  Watched() {
    std::vector<TokenSample> samples;
    for (int32_t i = 0; i < kSamples; ++i) samples.push_back({{i, i, i}, std::vector<uint8_t>(3, i % 3 == 0 ? 1 : 0)});
    samples_ = MakeTokenDataset(std::move(samples));
  }
  int64_t size() const override { return samples_->size(); }
  absl::StatusOr<int64_t> Length(int64_t index) const override { return samples_->Length(index); }
  absl::StatusOr<Sample> Read(int64_t index) const override {
    ++reads;
    return samples_->Read(index);
  }
  absl::StatusOr<std::string> Fingerprint() const override { return samples_->Fingerprint(); }

  mutable std::atomic<int64_t> reads = 0;

 private:
  std::shared_ptr<Dataset> samples_;
};

TokenBatches Deal(std::shared_ptr<const Dataset> data) {
  auto batches = TokenBatches::Create(std::move(data), 0, 1, {.rows_per_rank = 1, .shuffle = false});
  REQUIRE(batches.ok());
  return *std::move(batches);
}

RunContext Alone() { return RunContext(World{}, CreateAloneCommunicator(), torch::kCPU); }

absl::StatusOr<MetricValues> Evaluate(TaskParts<TokenBatch> parts, std::shared_ptr<const Dataset> held_out) {
  RunContext run = Alone();
  auto trainer = Trainer::Create(run, std::make_shared<Number>(), {.save_steps = 0});
  REQUIRE(trainer.ok());
  const auto task = MakeTask(Deal(std::make_shared<Watched>()), std::move(parts));
  task->SetHeldOut(Deal(std::move(held_out)));
  return (*trainer)->Evaluate(*task->evaluator());
}

TEST_CASE("an evaluation reads each held-out sample once, and none that it has no use for") {
  const auto held_out = std::make_shared<Watched>();
  const auto count = [](const TokenBatch& batch) { return Losses{{"loss", torch::ones({}), batch.num_loss_tokens()}}; };
  REQUIRE(Evaluate({.forward = count}, held_out).ok());
  CHECK(held_out->reads == kSamples);
}

TEST_CASE("an evaluation of one's own sees every sample, that of a loss those with a label") {
  std::multiset<int64_t> seen;
  const auto see = [&](const TokenBatch& batch) { seen.insert(batch.sample_ids.begin(), batch.sample_ids.end()); };
  TaskParts<TokenBatch> parts;
  parts.forward = [&](const TokenBatch& batch) {
    see(batch);
    return Losses{{"loss", torch::ones({}), batch.num_loss_tokens()}};
  };
  REQUIRE(Evaluate(parts, std::make_shared<Watched>()).ok());
  CHECK(seen == std::multiset<int64_t>{0, 3, 6});
  seen.clear();
  parts.evaluate = [&](const TokenBatch& batch, Metrics& metrics) {
    see(batch);
    for (const int64_t sample : batch.sample_ids) metrics.Predict(sample, "no label is needed");
  };
  parts.summarize = [](const Predictions& predictions) -> absl::StatusOr<MetricValues> {
    return MetricValues{{"predicted", predictions.size()}};
  };
  const auto values = Evaluate(parts, std::make_shared<Watched>());
  REQUIRE(values.ok());
  CHECK(values->at("predicted") == kSamples);
  CHECK(seen == std::multiset<int64_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("an evaluation's loss is the weighted sum of its terms' means, where all of them are there") {
  TaskParts<TokenBatch> parts;
  parts.loss_terms = {{"a", 2}, {"b", 0.5}, {"c", 0}};
  const auto give = [](double b, int64_t of_b) {
    return [=](const TokenBatch& batch) {
      const int64_t count = batch.num_loss_tokens();  // 2 of each of 3 samples
      return Losses{{"a", torch::full({}, 3.0 * count), count},
                    {"b", torch::full({}, b), of_b},
                    {"c", torch::full({}, 100.0 * count), count},
                    {"d", torch::full({}, 7.0 * count), count}};
    };
  };
  parts.forward = give(/*b=*/20, /*of_b=*/4);
  const auto values = Evaluate(parts, std::make_shared<Watched>());
  REQUIRE(values.ok());
  CHECK(*values == MetricValues{{"a", 3}, {"b", 5}, {"c", 100}, {"d", 7}, {"loss", 2 * 3 + 0.5 * 5}});
  parts.forward = give(/*b=*/0, /*of_b=*/0);
  const auto without = Evaluate(parts, std::make_shared<Watched>());
  REQUIRE(without.ok());
  CHECK(*without == MetricValues{{"a", 3}, {"c", 100}, {"d", 7}});
}

// Steps of one number, whose names and position are what a test says.
class Named : public testing::CountedTask {
 public:
  explicit Named(Number& number) : number_(number) {}
  std::vector<TermWeight> LossTerms() const override { return {{"distance"}}; }
  std::vector<std::string> Reported() const override { return reported; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    return std::vector<MicroStep>{{.counts = {1}, .num_samples = 1, .forward = [this](const PassScale&) {
                                     return Losses{{"distance", number_.value.square().sum(), 1}};
                                   }}};
  }
  std::string Position() const override { return position; }
  absl::Status Restore(const std::string& saved) override {
    restored.push_back(saved);
    return absl::OkStatus();
  }

  std::vector<std::string> reported;
  std::string position;
  std::vector<std::string> restored;

 private:
  Number& number_;
};

TEST_CASE("a name that a task reports twice, or that is its loss's, is refused before the first step") {
  RunContext run = Alone();
  const auto number = std::make_shared<Number>();
  auto trainer = Trainer::Create(run, number, {.max_steps = 1, .save_steps = 0});
  REQUIRE(trainer.ok());
  Named task(*number);
  using Names = std::vector<std::string>;
  for (const Names& names : {Names{"x", "y", "x"}, Names{"loss"}, Names{"x", "distance"}}) {
    task.reported = names;
    const absl::Status status = (*trainer)->Fit(task).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "Task::Reported names '" + names.back() + "'"));
  }
  CHECK(number->value.item<float>() == 1);
}

TEST_CASE("an empty position is saved as one, and given back") {
  const testing::TempFolder folder;
  for (const std::string position : {"", "somewhere"}) {
    std::vector<std::string> restored;
    for (const int64_t steps : {2, 4}) {
      RunContext run = Alone();
      const auto number = std::make_shared<Number>();
      TrainerOptions options{.output_dir = folder.path() + "/" + position, .max_steps = steps};
      options.save_steps = 2;
      options.resume_from_checkpoint = steps == 4 ? "latest" : "";
      auto trainer = Trainer::Create(run, number, options);
      REQUIRE(trainer.ok());
      Named task(*number);
      task.position = position;
      const auto fitted = (*trainer)->Fit(task);
      INFO(fitted.status());
      REQUIRE(fitted.ok());
      restored = task.restored;
    }
    CHECK(restored == std::vector<std::string>{position});
  }
}

}  // namespace
}  // namespace distill
