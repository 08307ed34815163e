#include "libdistill/data/loader.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "libdistill/data/collate.h"
#include "libdistill/data/dataset.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// 37 samples of 1 to 4 numbers; some of them cannot be read.
class Shelf : public Dataset {
 public:
  int64_t size() const override { return 37; }
  absl::StatusOr<int64_t> Length(int64_t index) const override {
    if (lengths_are_away) return absl::UnavailableError("the lengths are away");
    return 1 + index % 4;
  }
  absl::StatusOr<Sample> Read(int64_t index) const override {
    if (away.count(index) > 0) return absl::UnavailableError("sample " + std::to_string(index) + " is away");
    {
      const std::lock_guard lock(mutex);
      readers.insert(std::this_thread::get_id());
    }
    return Sample{index, {{"x", HostTensor(std::vector<int32_t>(1 + index % 4, static_cast<int32_t>(index)))}}};
  }
  absl::StatusOr<std::string> Fingerprint() const override { return "a shelf"; }

  std::set<int64_t> away;
  std::atomic<bool> lengths_are_away = false;
  mutable std::mutex mutex;
  mutable std::set<std::thread::id> readers;
};

// What a batch was made of, as text.
absl::StatusOr<std::string> Describe(const DealtRows& rows) {
  std::string text = "epoch " + std::to_string(rows.epoch);
  for (const SampleRow& row : rows) {
    text += " |";
    for (const Sample& sample : row) text += " " + std::to_string(sample.id);
    if (row[0].id == 36) return absl::InvalidArgumentError("no batch begins with sample 36");
  }
  return text;
}

using Texts = Batches<std::string>;

Texts MakeTexts(std::shared_ptr<const Dataset> data, ShardOptions options, int rank = 0, int world_size = 1,
                Texts::Collator collate = nullptr) {
  auto sharder = DataSharder::Create(std::move(data), rank, world_size, options);
  REQUIRE(sharder.ok());
  if (collate == nullptr) {
    collate = [](const DealtRows& rows) -> absl::StatusOr<std::string> {
      auto text = Describe(rows);
      return text.ok() ? *text : std::string("36");
    };
  }
  return Texts(*std::move(sharder), std::move(collate));
}

TEST_CASE("steps are those of the batches themselves, for any number of threads, over epochs, ranks and restarts") {
  const auto shelf = std::make_shared<Shelf>();
  for (const int64_t workers : {0, 1, 2, 8}) {
    for (const bool packing : {false, true}) {
      for (const int rank : {0, 2}) {  // in the last step of an epoch rank 2 may have no row
        const ShardOptions options{.rows_per_rank = 3, .accumulation_steps = 2, .packing = packing, .max_length = 7};
        Texts plain = MakeTexts(shelf, options, rank, 3), source = MakeTexts(shelf, options, rank, 3);
        INFO(workers << " workers, rank " << rank << (packing ? ", packed" : ""));
        std::vector<std::string> positions;
        {
          Loader<std::string> loader(source, {.num_workers = workers});
          for (int step = 0; step < 40; ++step) {
            CHECK(loader.Position() == plain.Position());
            positions.push_back(loader.Position());
            const auto expected = plain.NextStep(), found = loader.NextStep();
            REQUIRE(expected.ok());
            REQUIRE(found.ok());
            CHECK(*found == *expected);
            if (step % 5 == 2) CHECK(loader.StepsInEpoch(step).value() == plain.StepsInEpoch(step).value());
            if (step % 13 == 12) {
              REQUIRE(loader.Restore(positions[static_cast<size_t>(step) / 2]).ok());
              REQUIRE(plain.Restore(positions[static_cast<size_t>(step) / 2]).ok());
            }
          }
          CHECK_FALSE(loader.Restore("nonsense").ok());
          CHECK(loader.NextStep().value() == plain.NextStep().value());
        }
        CHECK(source.Position() == plain.Position());
      }
    }
  }
}

TEST_CASE("with no workers samples are read by who asks for them, otherwise by other threads") {
  for (const int64_t workers : {0, 3}) {
    const auto shelf = std::make_shared<Shelf>();
    Texts source = MakeTexts(shelf, {.rows_per_rank = 4});
    Loader<std::string> loader(source, {.num_workers = workers});
    CHECK(shelf->readers.empty());
    REQUIRE(loader.NextStep().ok());
    REQUIRE(loader.Settle().ok());
    const std::lock_guard lock(shelf->mutex);
    CHECK(shelf->readers.count(std::this_thread::get_id()) == (workers == 0 ? 1 : 0));
  }
}

TEST_CASE("the first error of a step is its own, in the order of its samples, and can be asked for again") {
  const auto shelf = std::make_shared<Shelf>();
  for (const int64_t workers : {0, 1, 8}) {
    const auto strict = [](const DealtRows& rows) { return Describe(rows); };
    const ShardOptions options{.rows_per_rank = 3, .accumulation_steps = 3};
    Texts plain = MakeTexts(shelf, options, 0, 1, strict), source = MakeTexts(shelf, options, 0, 1, strict);
    Loader<std::string> loader(source, {.num_workers = workers, .prefetch_factor = 20});
    for (const std::set<int64_t>& away :
         {std::set<int64_t>{5, 6, 7, 8, 9, 10, 30}, {0, 1, 2, 3, 4}, {11, 12, 22}, {}}) {
      REQUIRE(loader.Settle().ok());
      const_cast<Shelf&>(*shelf).away = away;
      for (int step = 0; step < 12; ++step) {
        INFO(workers << " workers, step " << step);
        const auto expected = plain.NextStep();
        for (int again = 0; again < (expected.ok() ? 1 : 2); ++again) {
          const auto found = loader.NextStep();
          CHECK(found.status() == expected.status());
          if (found.ok() && expected.ok()) CHECK(*found == *expected);
          CHECK(loader.Position() == plain.Position());
        }
        if (expected.ok()) continue;
        REQUIRE(plain.Restore(DataSharder::PositionOf(step, 0, 42)).ok());
        REQUIRE(loader.Restore(DataSharder::PositionOf(step, 0, 42)).ok());
      }
    }
  }
}

TEST_CASE("what stands in the way of dealing a step is an error of that step") {
  const auto shelf = std::make_shared<Shelf>();
  Texts source = MakeTexts(shelf, {.rows_per_rank = 3, .packing = true, .max_length = 7});
  Loader<std::string> loader(source, {.num_workers = 4});
  const std::string start = loader.Position();
  shelf->lengths_are_away = true;
  for (int again = 0; again < 2; ++again) {
    CHECK(loader.NextStep().status() == absl::UnavailableError("the lengths are away"));
    CHECK(loader.Position() == start);
  }
  shelf->lengths_are_away = false;
  CHECK(loader.NextStep().ok());
}

TEST_CASE("what prepares a batch runs where it is made, and its exception comes with the batch's step") {
  const auto shelf = std::make_shared<Shelf>();
  for (const int64_t workers : {0, 1, 4}) {
    Texts source = MakeTexts(shelf, {.rows_per_rank = 2, .accumulation_steps = 2, .shuffle = false});
    const auto prepare = [](std::string& text) {
      if (text == "epoch 0 | 6 | 7") throw std::runtime_error("no memory there");
      text += " is there";
    };
    Loader<std::string> loader(source, {.num_workers = workers}, prepare);
    CHECK(loader.NextStep().value()[1] == "epoch 0 | 2 | 3 is there");
    const std::string before = loader.Position();
    for (int again = 0; again < 2; ++again) {
      CHECK_THROWS_WITH(loader.NextStep(), "no memory there");
      CHECK(loader.Position() == before);
    }
    REQUIRE(loader.Restore(DataSharder::PositionOf(0, 8, 42)).ok());
    CHECK(loader.NextStep().value()[0] == "epoch 0 | 8 | 9 is there");
  }
}

// A store whose answers take so long that a read waits until as many are under way as there are to be.
class SlowStore : public Dataset {
 public:
  explicit SlowStore(int64_t at_once) : at_once_(at_once) {}
  int64_t size() const override { return 64; }
  absl::StatusOr<int64_t> Length(int64_t) const override { return 1; }
  absl::StatusOr<Sample> Read(int64_t index) const override {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++under_way_);
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(20), [this] { return most_ >= at_once_; });
    --under_way_;
    return Sample{index, {{"x", HostTensor(std::vector<int32_t>{1})}}};
  }
  absl::StatusOr<std::string> Fingerprint() const override { return "far away"; }
  int64_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  const int64_t at_once_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int64_t under_way_ = 0, most_ = 0;
};

TEST_CASE("eight workers have eight reads of a slow store under way, of one micro-batch or of several") {
  for (const int64_t rows : {1, 2, 8, 32}) {
    const auto store = std::make_shared<SlowStore>(8);
    Texts source = MakeTexts(store, {.rows_per_rank = rows});
    Loader<std::string> loader(source, {.num_workers = 8});
    for (int step = 0; step < 4; ++step) REQUIRE(loader.NextStep().ok());
    INFO(rows << " rows");
    CHECK(store->most() == 8);
  }
}

TEST_CASE("batches of tensors are those that would be made without a loader") {
  std::vector<Sample> samples;
  for (int32_t i = 0; i < 17; ++i)
    samples.push_back({.tensors = {{"x", HostTensor(std::vector<int32_t>(1 + i % 4, i))}}});
  const auto data = MakeDataset(std::move(samples));
  const auto make = [&] {
    auto sharder = DataSharder::Create(data, 0, 1, {.rows_per_rank = 2, .accumulation_steps = 2});
    REQUIRE(sharder.ok());
    return Batches<Batch>(*std::move(sharder),
                          [](absl::Span<const SampleRow> rows) { return StackRows(rows, {{"x"}}); });
  };
  auto plain = make(), source = make();
  Loader<Batch> loader(source);
  for (int step = 0; step < 12; ++step) {
    const auto expected = plain.NextStep(), found = loader.NextStep();
    REQUIRE((expected.ok() && found.ok()));
    REQUIRE(expected->size() == found->size());
    for (size_t i = 0; i < found->size(); ++i) {
      CHECK((*found)[i].sample_ids == (*expected)[i].sample_ids);
      CHECK((*found)[i].tensors == (*expected)[i].tensors);
    }
    CHECK(loader.Position() == plain.Position());
  }
}

}  // namespace
}  // namespace distill
