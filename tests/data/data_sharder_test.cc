#include "libdistill/data/data_sharder.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/core/random.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// `count` samples of 1 to 9 tokens; sample i holds the token 100 * i + position; every other token is a target.
std::shared_ptr<TokenDataset> MakeSamples(int64_t count) {
  Random random(7);
  std::vector<TokenSample> samples;
  for (int64_t i = 0; i < count; ++i) {
    TokenSample sample;
    const int64_t length = 1 + static_cast<int64_t>(random.Below(9));
    for (int64_t j = 0; j < length; ++j) {
      sample.ids.push_back(static_cast<int32_t>(100 * i + j));
      sample.is_target.push_back(j % 2);
    }
    samples.push_back(std::move(sample));
  }
  return MakeTokenDataset(std::move(samples));
}

DataSharder Make(std::shared_ptr<const TokenDataset> dataset, int rank, int world_size, const ShardOptions& options) {
  auto sharder = DataSharder::Create(std::move(dataset), rank, world_size, options);
  REQUIRE(sharder.ok());
  return *std::move(sharder);
}

// One global batch: the rows of all ranks as their tokens, sorted, for the order among ranks is not the content's.
using Rows = std::vector<std::vector<int32_t>>;

void AppendRows(const TokenBatch& batch, Rows* rows) {
  for (int64_t r = 0; r < batch.rows; ++r) {
    const auto begin = batch.input_ids.begin() + r * batch.length;
    rows->emplace_back(begin, begin + batch.document_starts[r].back());
  }
}

Rows GlobalBatch(std::vector<DataSharder>* ranks) {
  Rows rows;
  std::vector<size_t> micro_batches;
  for (DataSharder& rank : *ranks) {
    const std::vector<TokenBatch> step = rank.NextStep();
    for (const TokenBatch& batch : step) AppendRows(batch, &rows);
    micro_batches.push_back(step.size());
  }
  CHECK(std::adjacent_find(micro_batches.begin(), micro_batches.end(), std::not_equal_to<>()) == micro_batches.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<DataSharder> MakeRanks(const std::shared_ptr<TokenDataset>& dataset, int world_size,
                                   const ShardOptions& options) {
  std::vector<DataSharder> ranks;
  for (int rank = 0; rank < world_size; ++rank) ranks.push_back(Make(dataset, rank, world_size, options));
  return ranks;
}

}  // namespace

TEST_CASE("every sample comes exactly once an epoch, in equal steps, over ranks and accumulation") {
  const auto dataset = MakeSamples(37);
  for (const bool packing : {false, true}) {
    for (const int world_size : {1, 2, 3, 4}) {
      for (const int64_t accumulation : {1, 3}) {
        ShardOptions options{
            .rows_per_rank = 2, .accumulation_steps = accumulation, .packing = packing, .max_length = 16};
        std::vector<DataSharder> ranks = MakeRanks(dataset, world_size, options);
        for (int epoch = 0; epoch < 2; ++epoch) {
          std::map<int64_t, int> seen;
          const int64_t steps = ranks[0].steps_per_epoch();
          for (const DataSharder& rank : ranks) CHECK(rank.steps_in_epoch(epoch) == steps);
          CHECK(Make(dataset, 0, world_size, options).steps_in_epoch(epoch) == steps);  // seen from the first epoch
          for (int64_t step = 0; step < steps; ++step) {
            CHECK(ranks[0].state().epoch == epoch);
            std::vector<size_t> micro_batches;
            for (DataSharder& rank : ranks) {
              const std::vector<TokenBatch> batches = rank.NextStep();
              micro_batches.push_back(batches.size());
              for (const TokenBatch& batch : batches) {
                CHECK(batch.rows <= 2);
                for (const int64_t sample : batch.sample_ids) ++seen[sample];
              }
            }
            CHECK(*std::max_element(micro_batches.begin(), micro_batches.end()) == micro_batches.back());
            CHECK(micro_batches.front() >= 1);
          }
          for (const DataSharder& rank : ranks) CHECK((rank.state().epoch == epoch + 1 && rank.state().row == 0));
          CHECK(seen.size() == 37);
          CHECK(std::all_of(seen.begin(), seen.end(), [](const auto& count) { return count.second == 1; }));
        }
      }
    }
  }
}

TEST_CASE("a global batch holds the same rows however many ranks share it") {
  const auto dataset = MakeSamples(101);
  for (const bool packing : {false, true}) {
    const auto options = [packing](int64_t rows, int64_t accumulation) {
      return ShardOptions{
          .rows_per_rank = rows, .accumulation_steps = accumulation, .packing = packing, .max_length = 20};
    };
    std::vector<DataSharder> one = MakeRanks(dataset, 1, options(4, 3)), two = MakeRanks(dataset, 2, options(2, 3)),
                             three = MakeRanks(dataset, 3, options(4, 1)), four = MakeRanks(dataset, 4, options(1, 3));
    for (int step = 0; step < 30; ++step) {
      const Rows expected = GlobalBatch(&one);
      CHECK(GlobalBatch(&two) == expected);
      CHECK(GlobalBatch(&three) == expected);
      CHECK(GlobalBatch(&four) == expected);
    }
  }
}

TEST_CASE("row j of a global batch goes to rank j mod world size, in micro-batches of rows_per_rank") {
  std::vector<TokenSample> samples;
  for (int32_t i = 0; i < 11; ++i) samples.push_back({{i}, {0}});
  const auto dataset = MakeTokenDataset(std::move(samples));
  const ShardOptions options{.rows_per_rank = 2, .accumulation_steps = 2, .shuffle = false};
  DataSharder first = Make(dataset, 0, 2, options), second = Make(dataset, 1, 2, options);
  CHECK(first.steps_per_epoch() == 2);
  std::vector<TokenBatch> step = first.NextStep();
  REQUIRE(step.size() == 2);
  CHECK(step[0].sample_ids == std::vector<int64_t>{0, 2});
  CHECK(step[1].sample_ids == std::vector<int64_t>{4, 6});
  step = second.NextStep();
  CHECK(step[1].sample_ids == std::vector<int64_t>{5, 7});
  CHECK(first.NextStep()[0].sample_ids == std::vector<int64_t>{8, 10});
  CHECK(second.NextStep()[0].sample_ids == std::vector<int64_t>{9});
}

TEST_CASE("a rank without a row joins a short step with an empty batch") {
  const auto dataset = MakeSamples(1);
  for (int rank = 0; rank < 4; ++rank) {
    DataSharder sharder = Make(dataset, rank, 4, {.rows_per_rank = 2, .accumulation_steps = 8});
    const std::vector<TokenBatch> step = sharder.NextStep();
    REQUIRE(step.size() == 1);
    CHECK(step[0].rows == (rank == 0 ? 1 : 0));
  }
}

TEST_CASE("packing fills rows in the global order, cuts nothing and never goes beyond max_length") {
  const auto dataset = MakeSamples(200);
  DataSharder sharder = Make(dataset, 0, 1, {.rows_per_rank = 1, .packing = true, .max_length = 12});
  std::vector<int64_t> order;
  int64_t rows = 0;
  int64_t last_room = 0;
  for (int64_t steps = sharder.steps_per_epoch(); steps > 0; --steps, ++rows) {
    const TokenBatch batch = sharder.NextStep()[0];
    CHECK(batch.length <= 12);
    const std::vector<int64_t>& starts = batch.document_starts[0];
    REQUIRE(starts.size() == batch.sample_ids.size() + 1);
    for (size_t d = 0; d < batch.sample_ids.size(); ++d) {
      const std::vector<int32_t>& ids = dataset->sample(batch.sample_ids[d]).ids;
      CHECK(std::vector<int32_t>(batch.input_ids.begin() + starts[d], batch.input_ids.begin() + starts[d + 1]) == ids);
      order.push_back(batch.sample_ids[d]);
      if (d == 0) CHECK(static_cast<int64_t>(ids.size()) > last_room);  // it did not fit into the row before
    }
    last_room = 12 - starts.back();
  }
  CHECK(rows < 120);
  DataSharder plain = Make(dataset, 0, 1, {.rows_per_rank = 200});
  CHECK(plain.NextStep()[0].sample_ids == order);
}

TEST_CASE("epochs are shuffled differently, and alike for the same seed") {
  const auto dataset = MakeSamples(50);
  const ShardOptions options{.seed = 5, .rows_per_rank = 50};
  DataSharder a = Make(dataset, 0, 1, options), b = Make(dataset, 0, 1, options);
  const std::vector<int64_t> first = a.NextStep()[0].sample_ids, second = a.NextStep()[0].sample_ids;
  CHECK(first != second);
  CHECK(b.NextStep()[0].sample_ids == first);
  CHECK(b.NextStep()[0].sample_ids == second);
  DataSharder other = Make(dataset, 0, 1, {.seed = 6, .rows_per_rank = 50});
  CHECK(other.NextStep()[0].sample_ids != first);
  DataSharder plain = Make(dataset, 0, 1, {.rows_per_rank = 50, .shuffle = false});
  const std::vector<int64_t> in_order = plain.NextStep()[0].sample_ids;
  CHECK(std::is_sorted(in_order.begin(), in_order.end()));
}

TEST_CASE("a restored position goes on exactly, also on another number of ranks") {
  const auto dataset = MakeSamples(61);
  for (const bool packing : {false, true}) {
    const auto options = [packing](int64_t rows) {
      return ShardOptions{.rows_per_rank = rows, .accumulation_steps = 2, .packing = packing, .max_length = 14};
    };
    std::vector<DataSharder> undisturbed = MakeRanks(dataset, 2, options(2));
    for (int step = 0; step < 9; ++step) {
      const ShardState state = undisturbed[0].state();
      CHECK((state.row == undisturbed[1].state().row && state.epoch == undisturbed[1].state().epoch));
      std::vector<DataSharder> same = MakeRanks(dataset, 2, options(2)), four = MakeRanks(dataset, 4, options(1));
      for (DataSharder& rank : same) REQUIRE(rank.Restore(state).ok());
      for (DataSharder& rank : four) REQUIRE(rank.Restore(state).ok());
      std::vector<DataSharder> wide = MakeRanks(dataset, 4, options(2));  // twice the global batch
      for (DataSharder& rank : wide) REQUIRE(rank.Restore(state).ok());
      const Rows expected = GlobalBatch(&undisturbed);
      CHECK(GlobalBatch(&same) == expected);
      CHECK(GlobalBatch(&four) == expected);
      const Rows both = GlobalBatch(&wide);
      CHECK(std::includes(both.begin(), both.end(), expected.begin(), expected.end()));
    }
  }
}

TEST_CASE("positions that do not fit are refused, and leave the sharder where it was") {
  const auto dataset = MakeSamples(10);
  DataSharder sharder = Make(dataset, 0, 1, {.seed = 3});
  sharder.NextStep();
  CHECK(absl::StrContains(sharder.Restore({.epoch = 0, .row = 0, .seed = 4}).message(), "seed 4, this job 3"));
  CHECK(absl::StrContains(sharder.Restore({.epoch = 0, .row = 10, .seed = 3}).message(),
                          "row 10 of an epoch of 10 rows"));
  CHECK_FALSE(sharder.Restore({.epoch = -1, .row = 0, .seed = 3}).ok());
  CHECK_FALSE(sharder.Restore({.epoch = 0, .row = -1, .seed = 3}).ok());
  CHECK((sharder.state().epoch == 0 && sharder.state().row == 1));
}

TEST_CASE("data sets and options that make no sense are refused") {
  const auto status = [](std::shared_ptr<TokenDataset> dataset, int rank, int world_size, ShardOptions options) {
    return DataSharder::Create(std::move(dataset), rank, world_size, options).status();
  };
  CHECK(absl::StrContains(status(MakeTokenDataset({}), 0, 1, {}).message(), "no samples"));
  CHECK(absl::StrContains(status(MakeTokenDataset({{{}, {}}}), 0, 1, {}).message(), "sample 0 has no tokens"));
  CHECK(absl::StrContains(status(MakeTokenDataset({{{1}, {}}}), 0, 1, {}).message(), "1 ids, but 0 target marks"));
  CHECK(absl::StrContains(status(MakeSamples(1), 2, 2, {}).message(), "rank 2 of 2"));
  CHECK(absl::StrContains(status(MakeSamples(1), 0, 1, {.rows_per_rank = 0}).message(), "rows_per_rank is 0"));
  CHECK(absl::StrContains(status(MakeSamples(1), 0, 1, {.accumulation_steps = -1}).message(), "accumulation_steps"));
  CHECK(absl::StrContains(status(MakeSamples(1), 0, 1, {.max_length = 0}).message(), "max_length is 0"));
}

}  // namespace distill
