// Steps that are made ahead are the sharder's, and it stands where they were taken to.
#include "libdistill/task/token_steps.h"

#include "tests/support/catch.h"

namespace distill {
namespace {

DataSharder MakeSharder() {
  std::vector<TokenSample> samples;
  for (int32_t i = 0; i < 23; ++i)
    samples.push_back({std::vector<int32_t>(3 + i % 5, i), std::vector<uint8_t>(3 + i % 5, 1)});
  auto sharder = DataSharder::Create(MakeTokenDataset(std::move(samples)), 0, 1,
                                     {.rows_per_rank = 2, .accumulation_steps = 2, .packing = true, .max_length = 9});
  REQUIRE(sharder.ok());
  return *std::move(sharder);
}

// The ids of a step's batches, as its loss sees them.
std::vector<std::vector<int64_t>> Ids(const std::vector<TokenBatch>& batches) {
  std::vector<std::vector<int64_t>> ids;
  for (const TokenBatch& batch : batches) ids.emplace_back(batch.input_ids.begin(), batch.input_ids.end());
  return ids;
}

std::vector<std::vector<int64_t>> Ids(TokenSteps& steps, std::vector<TokenBatch>& seen) {
  seen.clear();
  for (const MicroStep& step : steps.NextStep()) {
    step.forward();
    CHECK(step.loss_count == seen.back().num_loss_tokens());
  }
  return Ids(seen);
}

bool Same(const ShardState& a, const ShardState& b) { return a.epoch == b.epoch && a.row == b.row && a.seed == b.seed; }

TEST_CASE("steps made ahead are the sharder's own, over several epochs") {
  DataSharder plain = MakeSharder(), ahead = MakeSharder();
  std::vector<TokenBatch> seen;
  const auto look = [&](const TokenBatch& batch) {
    seen.push_back(batch);
    return LossSum();
  };
  {
    TokenSteps steps(ahead, look);
    for (int step = 0; step < 40; ++step) {
      INFO("step " << step);
      CHECK(Ids(steps, seen) == Ids(plain.NextStep()));
      CHECK(Same(steps.state(), plain.state()));
      if (step % 7 == 3) CHECK(steps.steps_in_epoch(plain.state().epoch) == plain.steps_in_epoch(plain.state().epoch));
      if (step % 7 == 5) CHECK(steps.Fingerprint() == plain.Fingerprint());
    }
    const ShardState back = {.epoch = 1, .row = 4, .seed = 42};
    REQUIRE(steps.Restore(back).ok());
    REQUIRE(plain.Restore(back).ok());
    CHECK(Same(steps.state(), back));
    CHECK(Ids(steps, seen) == Ids(plain.NextStep()));
    CHECK_FALSE(steps.Restore({.epoch = 0, .row = 0, .seed = 1}).ok());
    CHECK(Ids(steps, seen) == Ids(plain.NextStep()));
  }
  CHECK(Same(ahead.state(), plain.state()));
  CHECK(Ids(ahead.NextStep()) == Ids(plain.NextStep()));
}

}  // namespace
}  // namespace distill
