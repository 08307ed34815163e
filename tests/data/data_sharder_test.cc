#include "libdistill/data/data_sharder.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/data/token_dataset.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

std::shared_ptr<Dataset> OfLengths(const std::vector<int64_t>& lengths) {
  std::vector<TokenSample> samples;
  for (const int64_t length : lengths) {
    samples.push_back({std::vector<int32_t>(length, 1), std::vector<uint8_t>(length, 1)});
  }
  return MakeTokenDataset(std::move(samples));
}

// `count` samples of 1 to 9 tokens.
std::shared_ptr<Dataset> MakeSamples(int64_t count) {
  Random random(7);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(1 + static_cast<int64_t>(random.Below(9)));
  return OfLengths(lengths);
}

DataSharder Make(std::shared_ptr<const Dataset> dataset, int rank, int world_size, const ShardOptions& options) {
  auto sharder = DataSharder::Create(std::move(dataset), rank, world_size, options);
  REQUIRE(sharder.ok());
  return *std::move(sharder);
}

std::vector<IndexRows> Next(DataSharder& sharder) {
  auto step = sharder.NextStep();
  INFO(step.status());
  REQUIRE(step.ok());
  return *std::move(step);
}

// The samples of one epoch, row by row.
IndexRows EpochOf(DataSharder sharder, int64_t epoch) {
  REQUIRE(sharder.Restore(DataSharder::PositionOf(epoch, 0, 42)).ok());
  IndexRows rows;
  for (int64_t steps = sharder.StepsInEpoch(epoch).value(); steps > 0; --steps) {
    for (const IndexRows& micro_batch : Next(sharder)) rows.insert(rows.end(), micro_batch.begin(), micro_batch.end());
  }
  return rows;
}

// One global batch: the rows of all ranks, sorted, for the order among ranks is not the content's.
IndexRows GlobalBatch(std::vector<DataSharder>* ranks) {
  IndexRows rows;
  std::vector<size_t> micro_batches;
  for (DataSharder& rank : *ranks) {
    const std::vector<IndexRows> step = Next(rank);
    for (const IndexRows& batch : step) rows.insert(rows.end(), batch.begin(), batch.end());
    micro_batches.push_back(step.size());
  }
  CHECK(std::adjacent_find(micro_batches.begin(), micro_batches.end(), std::not_equal_to<>()) == micro_batches.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<DataSharder> MakeRanks(const std::shared_ptr<Dataset>& dataset, int world_size,
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
          const int64_t steps = ranks[0].StepsInEpoch(epoch).value();
          for (DataSharder& rank : ranks) CHECK(rank.StepsInEpoch(epoch).value() == steps);
          CHECK(Make(dataset, 0, world_size, options).StepsInEpoch(epoch).value() == steps);  // seen from the first one
          for (int64_t step = 0; step < steps; ++step) {
            CHECK(absl::StartsWith(ranks[0].Position(), absl::StrCat("DataSharder 2 ", epoch, " ")));
            std::vector<size_t> micro_batches;
            for (DataSharder& rank : ranks) {
              const std::vector<IndexRows> batches = Next(rank);
              micro_batches.push_back(batches.size());
              for (const IndexRows& batch : batches) {
                CHECK(batch.size() <= 2);
                for (const std::vector<int64_t>& row : batch) {
                  for (const int64_t sample : row) ++seen[sample];
                }
              }
            }
            CHECK(*std::max_element(micro_batches.begin(), micro_batches.end()) == micro_batches.back());
            CHECK(micro_batches.front() >= 1);
          }
          for (const DataSharder& rank : ranks) CHECK(rank.Position() == DataSharder::PositionOf(epoch + 1, 0, 42, 37));
          CHECK(seen.size() == 37);
          CHECK(std::all_of(seen.begin(), seen.end(), [](const auto& count) { return count.second == 1; }));
        }
      }
    }
  }
}

TEST_CASE("a seed's order is the same in every version: that of SplitMix64 and Fisher-Yates, packed as it comes") {
  const auto dataset = OfLengths({3, 9, 1, 4, 7, 2, 8, 5, 6, 30});
  const DataSharder plain = Make(dataset, 0, 1, {.rows_per_rank = 3});
  const DataSharder packed = Make(dataset, 0, 1, {.rows_per_rank = 2, .packing = true, .max_length = 10});
  CHECK(EpochOf(plain, 0) == IndexRows{{1}, {9}, {0}, {8}, {2}, {6}, {3}, {4}, {7}, {5}});
  CHECK(EpochOf(plain, 2) == IndexRows{{8}, {6}, {4}, {5}, {2}, {1}, {9}, {0}, {7}, {3}});
  CHECK(EpochOf(packed, 0) == IndexRows{{1}, {9}, {0, 8, 2}, {6}, {3}, {4}, {7, 5}});
  CHECK(EpochOf(packed, 1) == IndexRows{{3, 7, 2}, {5}, {9}, {8}, {6}, {0, 4}, {1}});
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
      const IndexRows expected = GlobalBatch(&one);
      CHECK(GlobalBatch(&two) == expected);
      CHECK(GlobalBatch(&three) == expected);
      CHECK(GlobalBatch(&four) == expected);
    }
  }
}

TEST_CASE("row j of a global batch goes to rank j mod world size, in micro-batches of rows_per_rank") {
  const auto dataset = MakeSamples(11);
  const ShardOptions options{.rows_per_rank = 2, .accumulation_steps = 2, .shuffle = false};
  DataSharder first = Make(dataset, 0, 2, options), second = Make(dataset, 1, 2, options);
  CHECK(first.StepsInEpoch(0).value() == 2);
  CHECK(Next(first) == std::vector<IndexRows>{{{0}, {2}}, {{4}, {6}}});
  CHECK(Next(second) == std::vector<IndexRows>{{{1}, {3}}, {{5}, {7}}});
  CHECK(Next(first) == std::vector<IndexRows>{{{8}, {10}}});
  CHECK(Next(second) == std::vector<IndexRows>{{{9}}});
}

TEST_CASE("a global batch is as large on any number of ranks, or the nearest lower multiple of them") {
  struct Row {
    int64_t ranks, rank_rows, micro_batches;
  };
  const ShardOptions options{.rows_per_rank = 32, .accumulation_steps = 7, .global_rows = 4096};
  for (const Row& row : {Row{1, 4096, 128}, {3, 1365, 43}, {8, 512, 16}, {48, 85, 3}, {128, 32, 1}, {4096, 1, 1}}) {
    INFO(row.ranks << " ranks");
    const auto step = StepOn(options, row.ranks);
    REQUIRE(step.ok());
    CHECK(step->rank_rows == row.rank_rows);
    CHECK(step->micro_batches == row.micro_batches);
    CHECK(DescribeLowerBatch(options, row.ranks).empty() == (4096 % row.ranks == 0));
  }
  CHECK(DescribeLowerBatch(options, 48) ==
        "a step is 48 ranks x 85 rows = 4080 rows, the nearest lower multiple of 48 to global_batch_size 4096");
  CHECK(StepOn(options, 4097).status().message() ==
        "global_batch_size is 4096, which is less than a row for each of 4097 ranks: raise it, or start fewer ranks");
  // Of 90 samples, steps of 32 rows: on three ranks 30, in micro-batches of 4, 4 and 2.
  const auto data = MakeSamples(90);
  const ShardOptions small{.rows_per_rank = 4, .global_rows = 32};
  for (const int ranks : {1, 2, 3, 8, 32}) {
    INFO(ranks << " ranks");
    const int64_t rank_rows = 32 / ranks;
    std::vector<int64_t> first;
    for (int rank = 0; rank < ranks; ++rank) {
      DataSharder sharder = Make(data, rank, ranks, small);
      CHECK(sharder.StepsInEpoch(0).value() == (90 + rank_rows * ranks - 1) / (rank_rows * ranks));
      const std::vector<IndexRows> step = Next(sharder);
      REQUIRE(static_cast<int64_t>(step.size()) == (rank_rows + 3) / 4);
      int64_t rows = 0;
      for (const IndexRows& micro_batch : step) {
        CHECK(micro_batch.size() <= 4);
        rows += static_cast<int64_t>(micro_batch.size());
        for (const auto& row : micro_batch) first.push_back(row[0]);
      }
      CHECK(rows == rank_rows);
    }
    std::sort(first.begin(), first.end());
    std::vector<int64_t> expected;
    DataSharder alone = Make(data, 0, 1, {.rows_per_rank = rank_rows * ranks});
    const std::vector<IndexRows> whole = Next(alone);
    for (const auto& row : whole[0]) expected.push_back(row[0]);
    std::sort(expected.begin(), expected.end());
    CHECK(first == expected);
  }
  CHECK_FALSE(DataSharder::Create(data, 0, 33, small).ok());
}

TEST_CASE("a rank without a row joins a short step with an empty batch") {
  const auto dataset = MakeSamples(1);
  for (int rank = 0; rank < 4; ++rank) {
    DataSharder sharder = Make(dataset, rank, 4, {.rows_per_rank = 2, .accumulation_steps = 8});
    const std::vector<IndexRows> step = Next(sharder);
    REQUIRE(step.size() == 1);
    CHECK(step[0].size() == (rank == 0 ? 1 : 0));
  }
}

TEST_CASE("packing fills rows in the global order, cuts nothing and never goes beyond max_length") {
  const auto dataset = MakeSamples(200);
  const IndexRows rows = EpochOf(Make(dataset, 0, 1, {.packing = true, .max_length = 12}), 0);
  const IndexRows plain = EpochOf(Make(dataset, 0, 1, {}), 0);
  CHECK(rows.size() < 120);
  size_t next = 0;
  int64_t last_room = 0;
  for (const std::vector<int64_t>& row : rows) {
    int64_t room = 12;
    CHECK(dataset->Length(row[0]).value() > last_room);  // it did not fit into the row before
    for (const int64_t index : row) {
      room -= dataset->Length(index).value();
      CHECK(plain[next++] == std::vector<int64_t>{index});
    }
    CHECK(room >= 0);
    last_room = room;
  }
  CHECK(next == 200);
}

TEST_CASE("epochs are shuffled differently, and alike for the same seed") {
  const auto dataset = MakeSamples(50);
  const ShardOptions options{.seed = 5, .rows_per_rank = 50};
  DataSharder a = Make(dataset, 0, 1, options), b = Make(dataset, 0, 1, options);
  const auto first = Next(a), second = Next(a);
  CHECK(first != second);
  CHECK(Next(b) == first);
  CHECK(Next(b) == second);
  b.Restart();
  CHECK(Next(b) == first);
  DataSharder other = Make(dataset, 0, 1, {.seed = 6, .rows_per_rank = 50});
  CHECK(Next(other) != first);
  DataSharder plain = Make(dataset, 0, 1, {.rows_per_rank = 50, .shuffle = false});
  const IndexRows in_order = Next(plain)[0];
  CHECK(std::is_sorted(in_order.begin(), in_order.end()));
}

TEST_CASE("a restored position continues exactly, also on another number of ranks") {
  const auto dataset = MakeSamples(61);
  for (const bool packing : {false, true}) {
    const auto options = [packing](int64_t rows) {
      return ShardOptions{.rows_per_rank = rows, .accumulation_steps = 2, .packing = packing, .max_length = 14};
    };
    std::vector<DataSharder> undisturbed = MakeRanks(dataset, 2, options(2));
    for (int step = 0; step < 9; ++step) {
      const std::string position = undisturbed[0].Position();
      CHECK(position == undisturbed[1].Position());
      std::vector<DataSharder> same = MakeRanks(dataset, 2, options(2)), four = MakeRanks(dataset, 4, options(1));
      for (DataSharder& rank : same) REQUIRE(rank.Restore(position).ok());
      for (DataSharder& rank : four) REQUIRE(rank.Restore(position).ok());
      std::vector<DataSharder> wide = MakeRanks(dataset, 4, options(2));  // twice the global batch
      for (DataSharder& rank : wide) REQUIRE(rank.Restore(position).ok());
      const IndexRows expected = GlobalBatch(&undisturbed);
      CHECK(GlobalBatch(&same) == expected);
      CHECK(GlobalBatch(&four) == expected);
      const IndexRows both = GlobalBatch(&wide);
      CHECK(std::includes(both.begin(), both.end(), expected.begin(), expected.end()));
    }
  }
}

TEST_CASE("no sample is lost or comes twice when a job is resumed on one to five ranks in mid-epoch") {
  const auto dataset = MakeSamples(97);
  for (const bool packing : {false, true}) {
    const auto options =
        ShardOptions{.rows_per_rank = 2, .accumulation_steps = 2, .packing = packing, .max_length = 14};
    IndexRows expected = EpochOf(Make(dataset, 0, 1, options), 0);
    std::sort(expected.begin(), expected.end());
    for (int before = 1; before <= 5; ++before) {
      for (int after = 1; after <= 5; ++after) {
        for (int killed = 1; killed < 3; ++killed) {  // after so many steps
          std::vector<DataSharder> ranks = MakeRanks(dataset, before, options);
          IndexRows seen;
          const auto step = [&] {
            for (const std::vector<int64_t>& row : GlobalBatch(&ranks)) seen.push_back(row);
          };
          for (int i = 0; i < killed; ++i) step();
          const std::string position = ranks[0].Position();
          ranks = MakeRanks(dataset, after, options);
          for (DataSharder& rank : ranks) REQUIRE(rank.Restore(position).ok());
          while (ranks[0].epoch() == 0) step();
          std::sort(seen.begin(), seen.end());
          CHECK(seen == expected);
        }
      }
    }
  }
}

// As large as asked for; nobody reads it.
class Huge : public Dataset {
 public:
  explicit Huge(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  absl::StatusOr<int64_t> Length(int64_t) const override { return 1; }
  absl::StatusOr<Sample> Read(int64_t) const override { return absl::UnimplementedError("nobody reads it"); }
  absl::StatusOr<std::string> Fingerprint() const override { return "huge"; }

 private:
  const int64_t size_;
};

// Of this process, in bytes.
int64_t OwnMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, "RssAnon:")) return std::atoll(line.c_str() + 8) * 1024;
  }
  return 0;
}

TEST_CASE("a billion samples are dealt without a list of them") {
  const auto huge = std::make_shared<Huge>(1000000000);
  const int64_t before = OwnMemory();
  std::vector<DataSharder> ranks = MakeRanks(huge, 2, {.rows_per_rank = 50});
  CHECK(*ranks[0].StepsInEpoch(0) == 10000000);
  const IndexRows first = GlobalBatch(&ranks);
  CHECK(first.size() == 100);
  CHECK(OwnMemory() - before < 100000000);
  const std::string position = ranks[0].Position();
  CHECK(position == "DataSharder 3 0 100 42 1000000000");
  std::vector<DataSharder> one = MakeRanks(huge, 1, {.rows_per_rank = 100});
  REQUIRE(one[0].Restore(position).ok());
  CHECK(GlobalBatch(&one) == GlobalBatch(&ranks));
  CHECK(absl::StrContains(one[0].Restore("DataSharder 2 0 100 42 1000000000").message(), "with a list of all samples"));
  CHECK(one[0].Restore("DataSharder 2 3 0 42 1000000000").ok());
}

TEST_CASE("positions that do not fit are refused, and leave the sharder where it was") {
  const auto dataset = OfLengths(std::vector<int64_t>(10, 2));
  for (const bool packing : {false, true}) {
    DataSharder sharder = Make(dataset, 0, 1, {.seed = 3, .packing = packing, .max_length = 2});
    Next(sharder);
    const std::string before = sharder.Position();
    CHECK(before == "DataSharder 2 0 1 3 10");  // the format of docs/formats.md
    const auto refuses = [&](const std::string& position, const std::string& what) {
      const absl::Status status = sharder.Restore(position);
      INFO(status);
      CHECK(status.code() == absl::StatusCode::kInvalidArgument);
      CHECK(absl::StrContains(status.message(), what));
      CHECK(sharder.Position() == before);
    };
    refuses(DataSharder::PositionOf(0, 0, 4), "seed 4, this job 3: resume with the same seed");
    refuses(DataSharder::PositionOf(0, 10, 3), "row 10 of an epoch of 10 rows");
    refuses(DataSharder::PositionOf(7, 10, 3), "row 10 of an epoch of 10 rows");
    refuses(DataSharder::PositionOf(-1, 0, 3), "no data position");
    refuses(DataSharder::PositionOf(0, -1, 3), "no data position");
    refuses("DataSharder 7 0 0 3 10 7", "of version 7; this program knows versions up to 6");
    for (const std::string bytes :
         {"", "DataSharder", "DataSharder 1", "DataSharder 1 0 0", "DataSharder 2 0 0 3", "DataSharder 2 0 0 3 10 0",
          "DataSharder 2 0 x 3 10", "DataSharder 2 0 0 3 -1", "DataSharder 1 0 x 3", "Sampler 2 0 0 3 10"}) {
      refuses(bytes, "no data position: '" + bytes + "'");
    }
    REQUIRE(sharder.Restore(DataSharder::PositionOf(4, 9, 3)).ok());
    CHECK(Next(sharder).size() == 1);
    CHECK(sharder.Position() == DataSharder::PositionOf(5, 0, 3, 10));
  }
}

TEST_CASE("a position within an epoch is refused for a data set of another size, unless that is not known") {
  const auto dataset = OfLengths(std::vector<int64_t>(10, 2));
  for (const bool packing : {false, true}) {
    DataSharder sharder = Make(dataset, 0, 1, {.seed = 3, .packing = packing, .max_length = 2});
    for (const int64_t samples : {9, 11}) {
      const absl::Status status = sharder.Restore(DataSharder::PositionOf(1, 4, 3, samples));
      CHECK(status.code() == absl::StatusCode::kInvalidArgument);
      CHECK(absl::StrContains(status.message(), absl::StrCat("within an epoch of ", samples,
                                                             " samples, but the data set has 10, in "
                                                             "another order: resume with the same data")));
      CHECK(sharder.Restore(DataSharder::PositionOf(1, 0, 3, samples)).ok());  // its beginning is that of any data set
    }
    for (const std::string position : {"DataSharder 2 1 4 3 10", "DataSharder 2 1 4 3 0", "DataSharder 1 1 4 3"}) {
      REQUIRE(sharder.Restore(position).ok());
      CHECK(sharder.Position() == "DataSharder 2 1 4 3 10");
    }
  }
}

// What is asked of a data set, which may fail.
class Watched : public Dataset {
 public:
  explicit Watched(int64_t size) : samples_(MakeSamples(size)) {}
  int64_t size() const override { return samples_->size(); }
  absl::StatusOr<int64_t> Length(int64_t index) const override {
    ++lengths;
    if (fails) return absl::UnavailableError("the store is away");
    return samples_->Length(index);
  }
  absl::StatusOr<Sample> Read(int64_t index) const override {
    ++reads;
    return samples_->Read(index);
  }
  absl::StatusOr<std::string> Fingerprint() const override { return std::string("version 7"); }

  mutable std::atomic<int64_t> lengths = 0, reads = 0;
  bool fails = false;

 private:
  std::shared_ptr<Dataset> samples_;
};

TEST_CASE("no sample is read, and lengths only where rows are packed, once each, not in Create") {
  const auto data = std::make_shared<Watched>(40);
  DataSharder plain = Make(data, 0, 2, {});
  for (int step = 0; step < 60; ++step) Next(plain);
  CHECK(plain.StepsInEpoch(3).value() == 20);
  CHECK(data->lengths == 0);
  DataSharder packed = Make(data, 0, 2, {.packing = true, .max_length = 12});
  CHECK(data->lengths == 0);
  for (int step = 0; step < 60; ++step) Next(packed);
  CHECK(packed.StepsInEpoch(9).ok());
  CHECK(data->lengths == 40);
  CHECK(data->reads == 0);
  const auto fields = packed.Fingerprint();
  REQUIRE(fields.ok());
  CHECK(std::find(fields->begin(), fields->end(), std::pair<std::string, std::string>("samples", "version 7")) !=
        fields->end());
  CHECK(data->reads == 0);
}

TEST_CASE("lengths that cannot be read are the store's error, and can be asked for again") {
  const auto data = std::make_shared<Watched>(40);
  DataSharder sharder = Make(data, 0, 1, {.packing = true, .max_length = 12});
  const std::string start = sharder.Position();
  data->fails = true;
  const absl::Status away = absl::UnavailableError("the store is away");
  CHECK(sharder.NextStep().status() == away);
  CHECK(sharder.StepsInEpoch(0).status() == away);
  CHECK(sharder.Restore(DataSharder::PositionOf(0, 3, 42)) == away);
  CHECK(sharder.Position() == start);
  CHECK(sharder.Restore(start).ok());  // a first row needs no length
  data->fails = false;
  DataSharder undisturbed = Make(MakeSamples(40), 0, 1, {.packing = true, .max_length = 12});
  CHECK(Next(sharder) == Next(undisturbed));
}

TEST_CASE("data sets and options that make no sense are refused") {
  const auto status = [](std::shared_ptr<Dataset> dataset, int rank, int world_size, ShardOptions options) {
    return DataSharder::Create(std::move(dataset), rank, world_size, options).status();
  };
  CHECK(absl::StrContains(status(OfLengths({}), 0, 1, {}).message(), "no samples"));
  CHECK(absl::StrContains(status(nullptr, 0, 1, {}).message(), "no data set"));
  CHECK(absl::StrContains(status(MakeSamples(1), 2, 2, {}).message(), "rank 2 of 2"));
  CHECK(absl::StrContains(status(MakeSamples(1), 0, 1, {.rows_per_rank = 0}).message(),
                          "per_device_train_batch_size: must be at least 1"));
  CHECK(absl::StrContains(status(MakeSamples(1), 0, 1, {.accumulation_steps = -1}).message(),
                          "gradient_accumulation_steps: must be at least 1"));
  CHECK(absl::StrContains(status(MakeSamples(1), 0, 1, {.max_length = 0}).message(), "max_length: must be at least 2"));
  CHECK(absl::StrContains(Make(OfLengths({2, 0}), 0, 1, {.packing = true}).NextStep().status().message(),
                          "sample 1 has length 0"));
}

}  // namespace distill
