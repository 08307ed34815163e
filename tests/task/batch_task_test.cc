// Batches that are made ahead are the batches' own, and a failed one is an error of the step that it is.
#include "libdistill/task/make_task.h"

#include "libdistill/data/token_dataset.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

std::shared_ptr<Dataset> Samples() {
  std::vector<TokenSample> samples;
  for (int32_t i = 0; i < 23; ++i)
    samples.push_back({std::vector<int32_t>(3 + i % 5, i), std::vector<uint8_t>(3 + i % 5, 1)});
  return MakeTokenDataset(std::move(samples));
}

TokenBatches MakeBatches(std::shared_ptr<const Dataset> samples = Samples()) {
  auto batches = TokenBatches::Create(std::move(samples), 0, 1,
                                      {.rows_per_rank = 2, .accumulation_steps = 2, .packing = true, .max_length = 9});
  REQUIRE(batches.ok());
  return *std::move(batches);
}

// The ids of a step's batches, as its loss sees them.
std::vector<std::vector<int64_t>> Ids(const std::vector<TokenBatch>& batches) {
  std::vector<std::vector<int64_t>> ids;
  for (const TokenBatch& batch : batches) ids.emplace_back(batch.input_ids.begin(), batch.input_ids.end());
  return ids;
}

std::vector<std::vector<int64_t>> NextIds(TokenBatches& batches) {
  const auto step = batches.NextStep();
  REQUIRE(step.ok());
  return Ids(*step);
}

using TokenTask = std::unique_ptr<BatchTask<TokenBatch>>;

std::vector<std::vector<int64_t>> NextIds(Task& task, std::vector<TokenBatch>& seen) {
  seen.clear();
  const auto steps = task.NextStep();
  REQUIRE(steps.ok());
  for (const MicroStep& step : *steps) {
    step.forward({});
    CHECK(step.counts == std::vector<int64_t>{seen.back().num_loss_tokens()});
  }
  return Ids(seen);
}

TEST_CASE("steps made ahead are the batches' own, over several epochs") {
  TokenBatches plain = MakeBatches();
  std::vector<TokenBatch> seen;
  const auto look = [&](const TokenBatch& batch) {
    seen.push_back(batch);
    return Losses();
  };
  const TokenTask task = MakeTask(MakeBatches(), {.forward = look});
  task->Start(c10::kCPU);
  for (int step = 0; step < 40; ++step) {
    INFO("step " << step);
    CHECK(NextIds(*task, seen) == NextIds(plain));
    CHECK(task->Position() == plain.Position());
    if (step % 7 == 3) CHECK(task->StepsInEpoch(step / 7).value() == plain.StepsInEpoch(step / 7).value());
    if (step % 7 == 5) CHECK(task->Fingerprint().value().size() == plain.Fingerprint().value().size());
    if (step % 11 == 10) {  // as one Fit after another
      task->Stop();
      task->Start(c10::kCPU);
    }
  }
  const std::string back = DataSharder::PositionOf(1, 4, 42);
  REQUIRE(task->Restore(back).ok());
  REQUIRE(plain.Restore(back).ok());
  CHECK(task->Position() == plain.Position());
  CHECK(NextIds(*task, seen) == NextIds(plain));
  CHECK_FALSE(task->Restore(DataSharder::PositionOf(0, 0, 1)).ok());
  CHECK(task->Restore("") == absl::InvalidArgumentError("no data position: ''"));
  CHECK(NextIds(*task, seen) == NextIds(plain));
  task->Stop();
  CHECK(task->Position() == plain.Position());
}

// A store that cannot be reached for one sample.
class Failing : public Dataset {
 public:
  int64_t size() const override { return samples_->size(); }
  absl::StatusOr<int64_t> Length(int64_t index) const override { return samples_->Length(index); }
  absl::StatusOr<Sample> Read(int64_t index) const override {
    if (index == 7) return absl::UnavailableError("the store is away");
    return samples_->Read(index);
  }
  absl::StatusOr<std::string> Fingerprint() const override { return samples_->Fingerprint(); }

 private:
  std::shared_ptr<Dataset> samples_ = Samples();
};

TEST_CASE("a sample that cannot be read is the error of its own step, with its code") {
  TokenBatches plain = MakeBatches(std::make_shared<Failing>());
  const TokenTask task = MakeTask(TokenBatches(plain), {.forward = [](const TokenBatch&) { return Losses(); }});
  task->Start(c10::kCPU);
  int64_t good = 0;
  while (plain.NextStep().ok()) ++good;
  REQUIRE(good > 0);
  for (int64_t step = 0; step < good; ++step) CHECK(task->NextStep().ok());
  for (int again = 0; again < 2; ++again) {
    CHECK(task->NextStep().status() == absl::UnavailableError("the store is away"));
    CHECK(task->Position() == plain.Position());
  }
}

}  // namespace
}  // namespace distill
