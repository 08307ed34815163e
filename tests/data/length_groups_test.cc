#include "libdistill/data/length_groups.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/core/random.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/data/token_dataset.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr int64_t kSamples = 1203;
constexpr int64_t kMaxLength = 400;

// Most are short, a few are long: log-normal, as the lengths of texts are.
std::vector<int64_t> LongTailed() {
  Random random(3);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < kSamples; ++i) {
    const double normal = std::sqrt(-2 * std::log(1 - random.Uniform())) * std::cos(2 * M_PI * random.Uniform());
    lengths.push_back(std::clamp<int64_t>(static_cast<int64_t>(std::exp(3.5 + 0.9 * normal)), 1, kMaxLength));
  }
  return lengths;
}

std::shared_ptr<const Dataset> DatasetOf(const std::vector<int64_t>& lengths) {
  std::vector<TokenSample> samples;
  for (const int64_t length : lengths) {
    samples.push_back({std::vector<int32_t>(length, 1), std::vector<uint8_t>(length, 1)});
  }
  return MakeTokenDataset(std::move(samples));
}

std::vector<DataSharder> MakeRanks(const std::shared_ptr<const Dataset>& data, int ranks, const ShardOptions& options) {
  std::vector<DataSharder> made;
  for (int rank = 0; rank < ranks; ++rank) {
    auto sharder = DataSharder::Create(data, rank, ranks, options);
    INFO(sharder.status());
    REQUIRE(sharder.ok());
    made.push_back(*std::move(sharder));
  }
  return made;
}

// A step of all ranks: its samples in ascending order, and the micro-batches of each rank.
struct Step {
  std::vector<int64_t> samples;
  std::vector<std::vector<IndexRows>> by_rank;
};

Step NextOf(std::vector<DataSharder>& ranks) {
  Step step;
  for (DataSharder& rank : ranks) {
    auto batches = rank.NextStep();
    INFO(batches.status());
    REQUIRE(batches.ok());
    for (const IndexRows& batch : *batches) {
      for (const std::vector<int64_t>& row : batch) step.samples.insert(step.samples.end(), row.begin(), row.end());
    }
    step.by_rank.push_back(*std::move(batches));
    CHECK(step.by_rank.back().size() == step.by_rank.front().size());
  }
  std::sort(step.samples.begin(), step.samples.end());
  return step;
}

std::vector<Step> EpochOf(std::vector<DataSharder>& ranks) {
  std::vector<Step> steps;
  for (const int64_t epoch = ranks[0].epoch(); ranks[0].epoch() == epoch;) steps.push_back(NextOf(ranks));
  return steps;
}

int64_t LongestOf(const IndexRows& batch, const std::vector<int64_t>& lengths) {
  int64_t longest = 0;
  for (const std::vector<int64_t>& row : batch) longest = std::max(longest, lengths[row[0]]);
  return longest;
}

double PaddingOf(const std::vector<Step>& steps, const std::vector<int64_t>& lengths) {
  double places = 0, tokens = 0;
  for (const Step& step : steps) {
    for (const int64_t sample : step.samples) tokens += static_cast<double>(lengths[sample]);
    for (const auto& of_rank : step.by_rank) {
      for (const IndexRows& batch : of_rank) {
        places += static_cast<double>(std::ssize(batch) * LongestOf(batch, lengths));
      }
    }
  }
  return 1 - tokens / places;
}

std::vector<int64_t> AllSamplesOf(const std::vector<Step>& steps) {
  std::vector<int64_t> all;
  for (const Step& step : steps) all.insert(all.end(), step.samples.begin(), step.samples.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<int64_t> Everyone() {
  std::vector<int64_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

constexpr int64_t kRows = 60;  // of a global batch, for 1 to 5 ranks

ShardOptions Grouped(int ranks, int64_t accumulation = 1) {
  return {.rows_per_rank = kRows / ranks / accumulation,
          .accumulation_steps = accumulation,
          .group_by_length = true,
          .max_length = kMaxLength};
}

ShardOptions Budgeted(int ranks, bool grouped, int64_t batches = 12, int64_t max_tokens = 1000) {
  return {.accumulation_steps = batches / ranks,
          .group_by_length = grouped,
          .max_tokens_per_batch = max_tokens,
          .max_length = kMaxLength};
}

}  // namespace

TEST_CASE("grouped by length, a long-tailed data set has a quarter of the padding, and every sample comes once") {
  const std::vector<int64_t> lengths = LongTailed();
  const auto data = DatasetOf(lengths);
  std::vector<DataSharder> shuffled = MakeRanks(data, 1, {.rows_per_rank = kRows, .max_length = kMaxLength});
  std::vector<DataSharder> grouped = MakeRanks(data, 1, Grouped(1));
  const std::vector<Step> before = EpochOf(shuffled), after = EpochOf(grouped), next = EpochOf(grouped);
  // Twenty batches must hold the whole tail; smaller ones follow the lengths more closely.
  std::vector<DataSharder> small = MakeRanks(data, 1, Grouped(10));
  INFO(PaddingOf(before, lengths) << " and " << PaddingOf(after, lengths));
  CHECK(PaddingOf(before, lengths) > 0.6);
  CHECK(PaddingOf(after, lengths) < PaddingOf(before, lengths) / 4);
  CHECK(PaddingOf(EpochOf(small), lengths) < 0.08);
  CHECK(AllSamplesOf(after) == Everyone());
  CHECK(AllSamplesOf(next) == Everyone());
  CHECK(after[0].samples != next[0].samples);
  CHECK(after.size() == before.size());
  CHECK(after.back().samples.size() == kSamples % kRows);
}

TEST_CASE("the batches of a window come in no order of length") {
  const std::vector<int64_t> lengths = LongTailed();
  std::vector<DataSharder> grouped = MakeRanks(DatasetOf(lengths), 1, Grouped(1));
  std::vector<int64_t> longest;
  for (const Step& step : EpochOf(grouped)) longest.push_back(LongestOf(step.by_rank[0][0], lengths));
  longest.pop_back();  // the short one
  int falls = 0;
  for (size_t i = 1; i < longest.size(); ++i) falls += longest[i] < longest[i - 1];
  CHECK(falls > 4);
  CHECK(falls < static_cast<int>(longest.size()) - 4);
}

TEST_CASE("one to five ranks take the same samples in each step where lengths decide, and equal work") {
  const std::vector<int64_t> lengths = LongTailed();
  const auto data = DatasetOf(lengths);
  for (const bool has_budget : {false, true}) {
    const auto options = [has_budget](int ranks) {
      return has_budget ? Budgeted(ranks, true, 60, 400) : Grouped(ranks);
    };
    std::vector<DataSharder> one = MakeRanks(data, 1, options(1));
    const std::vector<Step> expected = EpochOf(one);
    CHECK(AllSamplesOf(expected) == Everyone());
    CHECK(expected.size() > 2);
    for (const int ranks : {2, 3, 4, 5}) {
      std::vector<DataSharder> many = MakeRanks(data, ranks, options(ranks));
      CHECK(many[0].StepsInEpoch(0).value() == std::ssize(expected));
      for (size_t i = 0; i < expected.size(); ++i) {
        const Step step = NextOf(many);
        CHECK(step.samples == expected[i].samples);
        if (has_budget || i + 1 == expected.size()) continue;
        for (size_t rank = 1; rank < step.by_rank.size(); ++rank) {
          const int64_t mine = LongestOf(step.by_rank[rank][0], lengths);
          CHECK(mine <= LongestOf(step.by_rank[0][0], lengths));
          CHECK(mine * 3 >= LongestOf(step.by_rank[0][0], lengths));  // the next in order of length, not any
        }
      }
    }
  }
}

TEST_CASE("a budget of tokens holds with the padding, and its batches are full") {
  const std::vector<int64_t> lengths = LongTailed();
  const auto data = DatasetOf(lengths);
  for (const bool grouped : {false, true}) {
    for (const int ranks : {1, 2, 5}) {
      ShardOptions options = Budgeted(1, grouped);
      options.accumulation_steps = 2;
      std::vector<DataSharder> sharders = MakeRanks(data, ranks, options);
      const std::vector<Step> steps = EpochOf(sharders);
      CHECK(sharders[0].StepsInEpoch(0).value() == std::ssize(steps));
      CHECK(AllSamplesOf(steps) == Everyone());
      int64_t batches = 0, places = 0;
      for (const Step& step : steps) {
        for (const auto& of_rank : step.by_rank) {
          for (const IndexRows& batch : of_rank) {
            const int64_t padded = std::ssize(batch) * LongestOf(batch, lengths);
            CHECK(padded <= 1000);
            batches += !batch.empty();
            places += padded;
          }
        }
      }
      CHECK(places > batches * (grouped ? 900 : 600));
    }
  }
  std::vector<DataSharder> plain = MakeRanks(data, 1, Budgeted(1, false)),
                           grouped = MakeRanks(data, 1, Budgeted(1, true));
  CHECK(PaddingOf(EpochOf(grouped), lengths) < PaddingOf(EpochOf(plain), lengths) / 5);
}

TEST_CASE("a job grouped by length is resumed at each of its steps as if nothing had happened") {
  const auto data = DatasetOf(LongTailed());
  for (const ShardOptions& options : {Grouped(2), Grouped(2, 3), Budgeted(2, true), Budgeted(2, false)}) {
    std::vector<DataSharder> undisturbed = MakeRanks(data, 2, options);
    while (undisturbed[0].epoch() < 2) {
      const std::string position = undisturbed[0].Position();
      CHECK(position == undisturbed[1].Position());
      std::vector<DataSharder> resumed = MakeRanks(data, 2, options);
      for (DataSharder& rank : resumed) REQUIRE(rank.Restore(position).ok());
      CHECK(NextOf(resumed).by_rank == NextOf(undisturbed).by_rank);
      CHECK(resumed[0].Position() == undisturbed[0].Position());
    }
  }
}

TEST_CASE("resumed on one to five ranks in mid-epoch, a job grouped by length loses and repeats no sample") {
  const auto data = DatasetOf(LongTailed());
  for (const bool has_budget : {false, true}) {
    // As many rows, or batches, a rank whatever their number: so the global batch changes.
    const ShardOptions options = has_budget ? Budgeted(6, true) : Grouped(6);
    for (int before = 1; before <= 5; ++before) {
      for (int after = 1; after <= 5; ++after) {
        std::vector<DataSharder> ranks = MakeRanks(data, before, options);
        std::vector<Step> steps = {NextOf(ranks), NextOf(ranks), NextOf(ranks)};
        const std::string position = ranks[0].Position();
        ranks = MakeRanks(data, after, options);
        for (DataSharder& rank : ranks) REQUIRE(rank.Restore(position).ok());
        for (Step& step : EpochOf(ranks)) steps.push_back(std::move(step));
        CHECK(AllSamplesOf(steps) == Everyone());
        // The next epoch is that of a job which always had so many ranks.
        std::vector<DataSharder> fresh = MakeRanks(data, after, options);
        EpochOf(fresh);
        CHECK(ranks[0].Position() == fresh[0].Position());
        CHECK(NextOf(ranks).by_rank == NextOf(fresh).by_rank);
      }
    }
  }
}

TEST_CASE("a position within an epoch of other batches by length is refused") {
  const auto data = DatasetOf(LongTailed());
  std::vector<DataSharder> grouped = MakeRanks(data, 1, Grouped(1)), budgeted = MakeRanks(data, 1, Budgeted(1, true)),
                           plain = MakeRanks(data, 1, {.rows_per_rank = kRows, .max_length = kMaxLength});
  for (auto* ranks : {&grouped, &budgeted, &plain}) NextOf(*ranks);
  CHECK(absl::StartsWith(grouped[0].Position(), "DataSharder 5 0 60 42 1203 - 3000 0"));
  for (auto* from : {&grouped, &budgeted, &plain}) {
    for (auto* to : {&grouped, &budgeted, &plain}) {
      const absl::Status status = (*to)[0].Restore((*from)[0].Position());
      if (from == to) {
        CHECK(status.ok());
      } else {
        CHECK(absl::StrContains(status.message(), "max_tokens_per_batch"));
        CHECK(absl::StrContains(status.message(), "at the end of an epoch"));
      }
    }
  }
  CHECK(
      absl::StrContains(budgeted[0].Restore("DataSharder 5 0 1 42 1203 - 16384 1000").message(), "row 1 of an epoch"));
  CHECK(absl::StrContains(budgeted[0].Restore("DataSharder 5 0 1 42 1203 -").message(), "no data position"));
}

TEST_CASE("what does not go together with lengths is refused by name") {
  const auto data = DatasetOf(LongTailed());
  const auto refused = [](const std::shared_ptr<const Dataset>& dataset, const ShardOptions& options) {
    auto sharder = DataSharder::Create(dataset, 0, 1, options);
    return std::string(sharder.ok() ? sharder->NextStep().status().message() : sharder.status().message());
  };
  CHECK(absl::StrContains(refused(data, {.packing = true, .group_by_length = true}), "packing and group_by_length"));
  CHECK(absl::StrContains(refused(data, {.packing = true, .max_tokens_per_batch = 8192}),
                          "packing and max_tokens_per_batch"));
  CHECK(absl::StrContains(refused(data, {.rows_per_rank = 4, .max_tokens_per_batch = 8192}),
                          "leave out per_device_train_batch_size, which is 4"));
  CHECK(absl::StrContains(refused(data, {.max_tokens_per_batch = 100, .max_length = 101}),
                          "max_tokens_per_batch is 100, but one row may have max_length, 101"));
  const auto without = MakeDataset(std::vector<Sample>(8));
  CHECK(absl::StrContains(refused(without, {.group_by_length = true}), "this data set knows no lengths"));
  CHECK(absl::StrContains(refused(without, {.max_tokens_per_batch = 8192}), "this data set knows no lengths"));
}

TEST_CASE("held-out samples come in order, within the budget where no rows are given") {
  const ShardOptions evaluation = ForEvaluation(Budgeted(1, true));
  CHECK_FALSE(evaluation.group_by_length);
  CHECK(evaluation.max_tokens_per_batch == 1000);
  ShardOptions with_rows = Budgeted(1, true);
  with_rows.held_out_rows = 7;
  CHECK(ForEvaluation(with_rows).max_tokens_per_batch == 0);
  CHECK(ForEvaluation(with_rows).rows_per_rank == 7);
  std::vector<DataSharder> sharders = MakeRanks(DatasetOf(LongTailed()), 1, evaluation);
  int64_t next = 0;
  for (const Step& step : EpochOf(sharders)) {
    for (const int64_t sample : step.samples) CHECK(sample == next++);
  }
  CHECK(next == kSamples);
}

}  // namespace distill
