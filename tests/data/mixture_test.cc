// Several sources in one epoch: how often each sample comes, for every number of ranks, and a split that stays.
#include "libdistill/data/mixture.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/data/token_dataset.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// Each sample's only token is its number.
std::shared_ptr<Dataset> Source(int32_t first, int32_t count) {
  std::vector<TokenSample> samples;
  for (int32_t i = 0; i < count; ++i) samples.push_back({{first + i, first + i}, {1, 1}});
  return MakeTokenDataset(std::move(samples));
}

std::shared_ptr<Dataset> Mixed(const std::vector<int32_t>& sizes, const MixOptions& options) {
  std::vector<std::shared_ptr<const Dataset>> sources;
  for (size_t i = 0; i < sizes.size(); ++i) sources.push_back(Source(static_cast<int32_t>(1000 * i), sizes[i]));
  auto mixed = MixSources(std::move(sources), options);
  INFO(mixed.status());
  REQUIRE(mixed.ok());
  return *std::move(mixed);
}

// The ids of an epoch in global order.
std::vector<int64_t> EpochOf(const std::shared_ptr<Dataset>& dataset, int64_t epoch, int ranks = 1,
                             bool packing = false) {
  std::vector<DataSharder> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(
        *DataSharder::Create(dataset, rank, ranks, {.rows_per_rank = 60 / ranks, .packing = packing, .max_length = 4}));
    REQUIRE(all.back().Restore(DataSharder::PositionOf(epoch, 0, 42)).ok());
  }
  std::vector<int64_t> ids;
  while (all[0].epoch() == epoch) {
    std::map<int64_t, std::vector<int64_t>> rows;  // by their place in the global batch
    for (int rank = 0; rank < ranks; ++rank) {
      int64_t row = rank;
      const auto step = all[static_cast<size_t>(rank)].NextStep();
      REQUIRE(step.ok());
      for (const auto& micro_batch : *step) {
        for (const auto& one : micro_batch) rows[std::exchange(row, row + ranks)] = one;
      }
    }
    for (const auto& [row, of_row] : rows) ids.insert(ids.end(), of_row.begin(), of_row.end());
  }
  return ids;
}

std::map<int64_t, int64_t> CountsOf(const std::vector<int64_t>& ids) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t id : ids) ++counts[id];
  return counts;
}

TEST_CASE("sources without weights are one data set, whose samples come once") {
  const auto mixed = Mixed({5, 3}, {});
  CHECK(mixed->size() == 8);
  CHECK(mixed->mixture() == nullptr);
  CHECK(mixed->Read(6)->id == 6);
  CHECK(mixed->Read(6)->Get<int32_t>("ids")->front() == 1001);
  CHECK(*mixed->Length(6) == 2);
  CHECK(absl::IsOutOfRange(mixed->Read(8).status()));
  std::vector<int64_t> ids = EpochOf(mixed, 0);
  std::sort(ids.begin(), ids.end());
  CHECK(ids == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(*Mixed({5, 3}, {})->Fingerprint() == *mixed->Fingerprint());
  CHECK(*Mixed({3, 5}, {})->Fingerprint() != *mixed->Fingerprint());
}

TEST_CASE("until the first source is exhausted, each epoch takes another part of the others") {
  const auto mixed = Mixed({100, 600}, {.weights = {1, 3}});
  std::set<int64_t> seen;
  for (int64_t epoch = 0; epoch < 12; ++epoch) {
    const std::vector<int64_t> ids = EpochOf(mixed, epoch);
    CHECK(ids.size() == 400);
    const auto counts = CountsOf(ids);
    CHECK(counts.size() == 400);  // none comes twice
    CHECK(std::count_if(ids.begin(), ids.end(), [](int64_t id) { return id < 100; }) == 100);
    seen.insert(ids.begin(), ids.end());
  }
  CHECK(seen.size() == 700);
}

TEST_CASE("until all sources are exhausted, the samples of the others come again, equally often") {
  const auto mixed = Mixed({100, 600}, {.weights = {1, 1}, .stopping = Stopping::kAllExhausted});
  const std::vector<int64_t> ids = EpochOf(mixed, 1);
  CHECK(ids.size() == 1200);
  for (const auto& [id, count] : CountsOf(ids)) CHECK(count == (id < 100 ? 6 : 1));
  const auto uneven = CountsOf(EpochOf(Mixed({40, 600}, {.weights = {1, 6}, .stopping = Stopping::kAllExhausted}), 0));
  CHECK(uneven.size() == 640);
  for (const auto& [id, count] : uneven) CHECK((id < 40 ? count == 2 || count == 3 : count == 1));
}

TEST_CASE("a mixture's order is the same for every number of ranks, and is resumed on another one") {
  const auto mixed = Mixed({50, 200, 31}, {.weights = {0.2, 0.5, 0.3}});
  for (const bool packing : {false, true}) {
    const std::vector<int64_t> expected = EpochOf(mixed, 2, 1, packing);
    CHECK(expected != EpochOf(mixed, 3, 1, packing));
    for (const int ranks : {2, 3, 4, 5}) CHECK(EpochOf(mixed, 2, ranks, packing) == expected);
  }
  auto one = DataSharder::Create(mixed, 0, 1, {.rows_per_rank = 10});
  REQUIRE(one->NextStep().ok());
  const std::string position = one->Position();
  CHECK(absl::StartsWith(position, "DataSharder 4 0 10 42 281 "));
  auto two = DataSharder::Create(mixed, 1, 2, {.rows_per_rank = 5});
  REQUIRE(two->Restore(position).ok());
  CHECK((*two->NextStep())[0].size() == 5);
  const auto refuses = [&](const std::shared_ptr<Dataset>& other) {
    return std::string(DataSharder::Create(other, 0, 1, {})->Restore(position).message());
  };
  CHECK(absl::StrContains(refuses(Mixed({50, 200, 31}, {.weights = {0.2, 0.4, 0.3}})), "of other weights"));
  CHECK(absl::StrContains(refuses(Mixed({50, 200, 31}, {})), "of other weights"));
}

TEST_CASE("weights that make no sense are refused") {
  const auto refuses = [](const std::vector<double>& weights) {
    return std::string(MixSources({Source(0, 3), Source(9, 3)}, {.weights = weights}).status().message());
  };
  CHECK(absl::StrContains(refuses({1}), "1 weights for 2 sources"));
  CHECK(absl::StrContains(refuses({1, 0}), "a source has the weight 0"));
  CHECK(absl::StrContains(refuses({-1, 1}), "a source has the weight -1"));
  CHECK(absl::StrContains(MixSources({Source(0, 0)}, {}).status().message(), "a source has no samples"));
}

TEST_CASE("the memory of a mixture is that of its sources, and a part keeps its whole") {
  const auto whole = Source(0, 700);
  const auto joined = MixSources({whole, whole}, {});
  REQUIRE(joined.ok());
  CHECK((*joined)->MemoryBytes() == 2 * whole->MemoryBytes());
  CHECK(SplitByIds(whole, 0.1).first->MemoryBytes() > whole->MemoryBytes());  // it keeps the whole
}

TEST_CASE("a sample stays in its part of a split when the data set grows") {
  const SplitDataset small = SplitByIds(Source(0, 700), 0.1), large = SplitByIds(Source(0, 900), 0.1);
  CHECK(small.first->size() + small.second->size() == 700);
  CHECK(small.second->size() > 40);
  CHECK(small.second->size() < 100);
  for (const auto& [few, more] : {std::pair(small.first, large.first), std::pair(small.second, large.second)}) {
    for (int64_t i = 0; i < few->size(); ++i) {
      CHECK(few->Read(i)->Get<int32_t>("ids")->front() == more->Read(i)->Get<int32_t>("ids")->front());
      CHECK(few->Read(i)->id == i);
    }
  }
  CHECK(*small.first->Fingerprint() != *small.second->Fingerprint());
}

TEST_CASE("samples are spread evenly over a data set, each once") {
  std::vector<Sample> samples;
  for (int32_t i = 0; i < 10; ++i) samples.push_back({.tensors = {{"i", HostTensor(std::vector<int32_t>{i})}}});
  const std::shared_ptr<Dataset> all = MakeDataset(std::move(samples));
  const auto taken = [&](int64_t count) {
    const auto part = SpreadSamples(all, count);
    std::vector<int32_t> numbers;
    for (int64_t i = 0; i < part->size(); ++i) numbers.push_back((*part->Read(i)->Get<int32_t>("i"))[0]);
    return numbers;
  };
  CHECK(taken(3) == std::vector<int32_t>{0, 3, 6});
  CHECK(taken(4) == std::vector<int32_t>{0, 2, 5, 7});
  CHECK(taken(10) == std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(taken(11) == taken(10));
}

}  // namespace
}  // namespace distill
