// The order of data sets that are streamed: shuffled within windows, the same for every number of ranks, and resumed.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/data/mixture.h"
#include "libdistill/data/sample_order.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

class Stream : public Dataset {
 public:
  Stream(int64_t size, int64_t window) : size_(size), window_(window) {}
  int64_t size() const override { return size_; }
  absl::StatusOr<int64_t> Length(int64_t index) const override { return 2 + index % 7; }
  absl::StatusOr<Sample> Read(int64_t) const override { return absl::UnimplementedError("nobody reads it"); }
  absl::StatusOr<std::string> Fingerprint() const override { return absl::StrCat(size_, " in windows of ", window_); }
  int64_t window() const override { return window_; }

 private:
  const int64_t size_, window_;
};

std::vector<int64_t> All(const SampleOrder& order) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < order.size(); ++i) all.push_back(order[i]);
  return all;
}

std::vector<int64_t> All(const EpochOrder& order) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < order.size(); ++i) all.push_back(order[i]);
  return all;
}

std::vector<int64_t> Sorted(std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

// How far behind the highest id before it the id at any place is, at most.
int64_t FarthestBehind(const std::vector<int64_t>& ids) {
  int64_t highest = 0, farthest = 0;
  for (const int64_t id : ids) {
    highest = std::max(highest, id);
    farthest = std::max(farthest, highest - id);
  }
  return farthest;
}

TEST_CASE("in windows every sample comes once, less than a window from its number") {
  for (int64_t size = 1; size < 130; ++size) {
    for (const int64_t window : {1, 2, 3, 7, 50}) {
      const std::vector<int64_t> all = All(SampleOrder::ShuffledInWindows(size, window, 3, 1));
      INFO(size << " in windows of " << window);
      CHECK(Sorted(all) == All(SampleOrder::InOrder(size)));
      if (window >= size) {
        CHECK(all == All(SampleOrder::Shuffled(size, 3, 1)));
        continue;
      }
      for (int64_t place = 0; place < size; ++place) CHECK(std::abs(all[place] - place) < window);
      CHECK(FarthestBehind(all) < window);
    }
  }
}

TEST_CASE("in windows the order is that of size, window, seed and epoch") {
  const auto shuffled = [](int64_t window, uint64_t seed, int64_t epoch) {
    return All(SampleOrder::ShuffledInWindows(1000, window, seed, epoch));
  };
  CHECK(shuffled(100, 1, 2) == shuffled(100, 1, 2));
  CHECK(shuffled(100, 1, 2) != shuffled(100, 1, 3));
  CHECK(shuffled(100, 1, 2) != shuffled(100, 2, 2));
  CHECK(shuffled(100, 1, 2) != shuffled(101, 1, 2));
  // Part of saved positions, so it must stay what it is.
  CHECK(All(SampleOrder::ShuffledInWindows(12, 4, 42, 0)) ==
        std::vector<int64_t>{0, 1, 2, 5, 3, 6, 4, 10, 8, 9, 7, 11});
}

// With a border anywhere and a permutation like chance, a sample moves by d with probability (W - |d|) / W^2.
TEST_CASE("in windows a sample moves as by chance, over any border") {
  constexpr int64_t kWindow = 20, kOrders = 40000, kSize = 200;
  for (const int64_t place : {57, 100}) {
    std::map<int64_t, int64_t> moves;
    for (int64_t i = 0; i < kOrders; ++i) {
      const auto order = SampleOrder::ShuffledInWindows(kSize, kWindow, static_cast<uint64_t>(i / 50), i % 50);
      ++moves[order[place] - place];
    }
    double sum = 0;
    for (int64_t d = 1 - kWindow; d < kWindow; ++d) {
      const double expected = kOrders * static_cast<double>(kWindow - std::abs(d)) / (kWindow * kWindow);
      sum += (moves[d] - expected) * (moves[d] - expected) / expected;
    }
    constexpr double kFreedom = 2 * kWindow - 2;
    CHECK(std::abs(sum - kFreedom) / std::sqrt(2 * kFreedom) < 5);
  }
}

TEST_CASE("a billion samples in windows are dealt without a list") {
  const EpochOrder order(Stream(1000000000, 8192), true, 7, 3);
  std::vector<int64_t> some;
  for (int64_t place = 700000000; place < 700020000; ++place) {
    some.push_back(order[place]);
    CHECK(std::abs(some.back() - place) < 8192);
  }
  const std::vector<int64_t> sorted = Sorted(some);
  CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
}

std::vector<DataSharder> MakeRanks(const std::shared_ptr<const Dataset>& data, int ranks, const std::string& position,
                                   ShardOptions options) {
  options.rows_per_rank = options.max_tokens_per_batch > 0 ? 1 : 60 / ranks;
  if (options.max_tokens_per_batch > 0) options.accumulation_steps = 60 / ranks;
  std::vector<DataSharder> all;
  for (int rank = 0; rank < ranks; ++rank) {
    auto sharder = DataSharder::Create(data, rank, ranks, options);
    INFO(sharder.status());
    REQUIRE(sharder.ok());
    REQUIRE(sharder->Restore(position) == absl::OkStatus());
    all.push_back(*std::move(sharder));
  }
  return all;
}

// The samples of `steps` steps of all ranks, sorted within each step; `position` moves on.
std::vector<int64_t> Steps(const std::shared_ptr<const Dataset>& data, int ranks, int64_t steps, std::string& position,
                           const ShardOptions& options) {
  std::vector<DataSharder> all = MakeRanks(data, ranks, position, options);
  std::vector<int64_t> ids;
  for (const int64_t epoch = all[0].epoch(); steps > 0 && all[0].epoch() == epoch; --steps) {
    const size_t before = ids.size();
    for (DataSharder& rank : all) {
      const auto step = rank.NextStep();
      REQUIRE(step.ok());
      for (const IndexRows& rows : *step) {
        for (const auto& row : rows) ids.insert(ids.end(), row.begin(), row.end());
      }
    }
    std::sort(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
  }
  position = all[0].Position();
  return ids;
}

// Whatever the ranks before and after `steps` steps.
void CheckResumes(const std::shared_ptr<const Dataset>& data, const ShardOptions& options, int64_t steps = 4) {
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const std::string start = DataSharder::PositionOf(epoch, 0, options.seed);
    std::string position = start;
    const std::vector<int64_t> whole = Steps(data, 1, 1000, position, options);
    for (const int before : {1, 2, 3, 4, 5}) {
      for (const int after : {1, 2, 3, 4, 5}) {
        INFO("epoch " << epoch << ", from " << before << " to " << after << " ranks");
        std::string at = start;
        std::vector<int64_t> ids = Steps(data, before, steps, at, options);
        const std::vector<int64_t> rest = Steps(data, after, 1000, at, options);
        ids.insert(ids.end(), rest.begin(), rest.end());
        CHECK(ids == whole);
        CHECK(at == position);
      }
    }
  }
}

TEST_CASE("an epoch in windows is resumed in its middle on any number of ranks, each sample once") {
  const auto data = std::make_shared<Stream>(1003, 100);
  CheckResumes(data, {});
  CheckResumes(data, {.packing = true, .max_length = 16});
  CheckResumes(data, {.max_tokens_per_batch = 40, .max_length = 16}, /*steps=*/1);
  CheckResumes(data, {.shuffle = false});
  std::string position = DataSharder::PositionOf(0, 0, 42);
  CHECK(Sorted(Steps(data, 3, 1000, position, {})) == All(SampleOrder::InOrder(1003)));
}

TEST_CASE("a position in windows is resumed with the same windows alone") {
  const auto data = std::make_shared<Stream>(500, 100);
  std::string position = DataSharder::PositionOf(0, 0, 42);
  Steps(data, 1, 2, position, {});
  CHECK(position == "DataSharder 6 0 120 42 500 - 0 0 100");  // docs/formats.md
  for (const int64_t window : {0, 99}) {
    auto other = DataSharder::Create(std::make_shared<Stream>(500, window), 0, 1, {});
    const absl::Status status = other->Restore(position);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(),
                            absl::StrCat("shuffled in windows of 100 samples (0: without windows), this data set has ",
                                         window, ": open it with the same window_rows")));
    CHECK(other->Restore("DataSharder 6 3 0 42 500 - 0 0 100").ok());  // an epoch's first row is that of any order
  }
  auto same = DataSharder::Create(data, 0, 1, {});
  CHECK_FALSE(same->Restore("DataSharder 2 0 120 42 500").ok());
  CHECK_FALSE(same->Restore("DataSharder 6 0 120 42 500 - 0 0").ok());
  CHECK_FALSE(same->Restore("DataSharder 6 0 120 42 500 - 0 0 -1").ok());
  CHECK(same->Restore(position).ok());
}

TEST_CASE("samples are grouped by length within a quarter of a window, else it is refused with what to do") {
  const auto grouped = [](int64_t window, const ShardOptions& options) {
    return DataSharder::Create(std::make_shared<Stream>(9000, window), 0, 1, options);
  };
  const absl::Status refused = grouped(3999, {.rows_per_rank = 20, .group_by_length = true}).status();
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(refused.message(),
                          "group_by_length sorts 1000 samples at a time, but this data set is "
                          "streamed, in windows of 3999 samples: open it with windows of at least "
                          "4000 (RowDatasetOptions::window_rows)"));
  auto sharder = grouped(4000, {.rows_per_rank = 20, .group_by_length = true});
  REQUIRE(sharder.ok());
  std::vector<int64_t> ids;
  while (sharder->epoch() == 0) {
    const auto step = sharder->NextStep();
    REQUIRE(step.ok());
    for (const IndexRows& rows : *step) {
      for (const auto& row : rows) ids.push_back(row[0]);
    }
  }
  CHECK(FarthestBehind(ids) < 2 * 4000);
  CHECK(Sorted(ids) == All(SampleOrder::InOrder(9000)));
}

std::shared_ptr<Dataset> Mix(std::vector<std::shared_ptr<const Dataset>> sources, const MixOptions& options = {}) {
  auto mixed = MixSources(std::move(sources), options);
  REQUIRE(mixed.ok());
  return *std::move(mixed);
}

// What an epoch takes of ids from `first` on, below `last`, as ids of the source.
std::vector<int64_t> OfSource(const std::vector<int64_t>& ids, int64_t first, int64_t last) {
  std::vector<int64_t> own;
  for (const int64_t id : ids) {
    if (first <= id && id < last) own.push_back(id - first);
  }
  return own;
}

TEST_CASE("streamed sources are mixed with one another and with others, each read about in its own order") {
  const auto a = std::make_shared<Stream>(3000, 100), b = std::make_shared<Stream>(700, 60),
             c = std::make_shared<Stream>(1000, 0);
  const auto mixed = Mix({a, b, c});
  REQUIRE(mixed->mixture() != nullptr);
  CHECK(mixed->window() == 60);
  CHECK(mixed->mixture()->Describe() == "3000 of 3000 in windows of 100, 700 of 700 in windows of 60, 1000 of 1000");
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<int64_t> ids = All(EpochOrder(*mixed, true, 5, epoch));
    CHECK(Sorted(ids) == All(SampleOrder::InOrder(4700)));
    CHECK(FarthestBehind(OfSource(ids, 0, 3000)) < 2 * 100);
    CHECK(FarthestBehind(OfSource(ids, 3000, 3700)) < 2 * 60);
    // Any 470 in a row have of each source about its share; the third one is shuffled as a whole.
    for (size_t begin = 0; begin + 470 <= ids.size(); begin += 470) {
      const std::vector<int64_t> part(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                      ids.begin() + static_cast<std::ptrdiff_t>(begin + 470));
      CHECK(std::abs(static_cast<int64_t>(OfSource(part, 0, 3000).size()) - 300) < 30);
      CHECK(std::abs(static_cast<int64_t>(OfSource(part, 3000, 3700).size()) - 70) < 15);
    }
    CHECK(FarthestBehind(OfSource(ids, 3700, 4700)) > 700);
  }
  CheckResumes(mixed, {});
}

TEST_CASE("a streamed source with a weight comes in its share, several times where it must") {
  const auto a = std::make_shared<Stream>(2000, 150), b = std::make_shared<Stream>(300, 40);
  const auto mixed = Mix({a, b}, {.weights = {1, 1}, .stopping = Stopping::kAllExhausted});
  const std::vector<int64_t> ids = All(EpochOrder(*mixed, true, 5, 0));
  CHECK(ids.size() == 4000);
  CHECK(Sorted(OfSource(ids, 0, 2000)) == All(SampleOrder::InOrder(2000)));
  CHECK(FarthestBehind(OfSource(ids, 0, 2000)) < 2 * 150);
  std::map<int64_t, int64_t> counts;
  for (const int64_t id : OfSource(ids, 2000, 2300)) ++counts[id];
  CHECK(counts.size() == 300);
  for (const auto& [id, count] : counts) CHECK((count == 6 || count == 7));
  const auto part = Mix({a, b}, {.weights = {1, 1}});  // until the first one is exhausted
  std::map<int64_t, int64_t> taken;
  for (const int64_t id : All(EpochOrder(*part, true, 5, 0))) ++taken[id < 2000 ? 0 : 1];
  CHECK(taken == std::map<int64_t, int64_t>{{0, 300}, {1, 300}});
  CheckResumes(mixed, {});
  // Windows are part of what a position fits to.
  std::string position = DataSharder::PositionOf(0, 0, 42);
  Steps(mixed, 2, 3, position, {});
  const auto other =
      Mix({a, std::make_shared<Stream>(300, 41)}, {.weights = {1, 1}, .stopping = Stopping::kAllExhausted});
  CHECK(absl::StrContains(DataSharder::Create(other, 0, 1, {})->Restore(position).message(), "of other sources"));
}

TEST_CASE("parts of a streamed data set are shuffled in windows that lie within those of the whole") {
  const auto whole = std::make_shared<Stream>(5000, 200);
  const SplitDataset split = SplitByIds(whole, 0.1);
  const std::shared_ptr<Dataset> spread = SpreadSamples(whole, 50);
  for (const auto& part : {split.first, split.second, spread}) {
    CHECK(part->window() > 0);
    CHECK(part->window() <= 200);
    const std::vector<int64_t> all = All(EpochOrder(*part, true, 1, 0));
    CHECK(Sorted(all) == All(SampleOrder::InOrder(part->size())));
    CHECK(FarthestBehind(all) < part->window());
  }
  CHECK(split.first->window() > 150);
  CHECK(split.second->window() > 5);
  CHECK(spread->window() == 2);  // a hundred apart
  CHECK(SplitByIds(std::make_shared<Stream>(100, 0), 0.5).first->window() == 0);
  CHECK(SpreadSamples(std::make_shared<Stream>(100, 500), 10)->window() == 10);
}

}  // namespace
}  // namespace distill
