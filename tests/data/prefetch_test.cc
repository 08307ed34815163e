#include "libdistill/data/prefetch.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "libdistill/data/batches.h"
#include "libdistill/data/collate.h"
#include "libdistill/data/dataset.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// A source of a user's own: steps 0, 1, 2, ...
struct Counter {
  absl::StatusOr<int64_t> NextStep() {
    last_thread = std::this_thread::get_id();
    if (next == fails_at) return absl::UnavailableError("the generator is away");
    return next++;
  }
  std::string Position() const { return std::to_string(next); }
  absl::Status Restore(const std::string& position) {
    if (stays) return absl::UnavailableError("cannot go back");
    next = std::stoll(position);
    return absl::OkStatus();
  }

  int64_t next = 0, fails_at = -1;
  bool stays = false;
  std::thread::id last_thread;
};

TEST_CASE("a step is made on another thread before it is asked for; the position is that of the one handed out") {
  Counter counter;
  {
    Prefetch ahead(counter);
    CHECK(ahead.Position() == "0");
    CHECK(ahead.NextStep().value() == 0);
    CHECK(ahead.Position() == "1");
    CHECK(ahead.Pause().next == 2);  // step 1 is made
    CHECK(counter.last_thread != std::this_thread::get_id());
    CHECK(ahead.NextStep().value() == 1);
    REQUIRE(ahead.Settle().ok());
    CHECK(counter.next == 2);
    REQUIRE(ahead.Restore("7").ok());
    CHECK(ahead.Position() == "7");
    CHECK(ahead.NextStep().value() == 7);
  }
  CHECK(counter.next == 8);
}

TEST_CASE("nothing is begun after the last step that is wanted, and what is asked for still is made") {
  Counter counter;
  Prefetch<Counter> ahead(counter, nullptr, /*steps=*/3);
  for (int64_t step = 0; step < 3; ++step) {
    CHECK(ahead.NextStep().value() == step);
    CHECK(ahead.Pause().next == std::min<int64_t>(step + 2, 3));
  }
  CHECK(ahead.NextStep().value() == 3);
  CHECK(ahead.Pause().next == 4);
}

TEST_CASE("a source's error is that of its own step, and can be asked for again") {
  Counter counter;
  counter.fails_at = 2;
  Prefetch ahead(counter);
  CHECK(ahead.NextStep().value() == 0);
  CHECK(ahead.NextStep().value() == 1);  // step 2 has failed by now, or soon will
  for (int again = 0; again < 2; ++again) {
    CHECK(ahead.NextStep().status() == absl::UnavailableError("the generator is away"));
    CHECK(ahead.Position() == "2");
  }
  ahead.Pause().fails_at = -1;
  CHECK(ahead.NextStep().value() == 2);
}

TEST_CASE("a source that cannot go back says so, and no step is left out because of it") {
  Counter counter;
  Prefetch ahead(counter);
  CHECK(ahead.NextStep().value() == 0);
  ahead.Pause().stays = true;
  CHECK(ahead.Settle() == absl::UnavailableError("cannot go back"));
  CHECK(ahead.NextStep().status() == absl::UnavailableError("cannot go back"));
  counter.stays = false;
  CHECK(ahead.NextStep().value() == 1);
}

TEST_CASE("what prepares a step runs with its making, and its exception comes with the step") {
  Counter counter;
  Prefetch<Counter> ahead(counter, [](int64_t& step) {
    if (step == 1) throw std::runtime_error("no memory there");
    step += 100;
  });
  CHECK(ahead.NextStep().value() == 100);
  CHECK_THROWS_WITH(ahead.NextStep(), "no memory there");
  CHECK(ahead.Position() == "1");
  REQUIRE(ahead.Restore("2").ok());
  CHECK(ahead.NextStep().value() == 102);
}

TEST_CASE("batches of any kind are made ahead, and are those that would be made without") {
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
  {
    Prefetch ahead(source);
    for (int step = 0; step < 12; ++step) {
      const auto expected = plain.NextStep(), found = ahead.NextStep();
      REQUIRE((expected.ok() && found.ok()));
      REQUIRE(expected->size() == found->size());
      for (size_t i = 0; i < found->size(); ++i) {
        CHECK((*found)[i].sample_ids == (*expected)[i].sample_ids);
        CHECK((*found)[i].tensors == (*expected)[i].tensors);
      }
      CHECK(ahead.Position() == plain.Position());
    }
  }
  CHECK(source.Position() == plain.Position());
}

}  // namespace
}  // namespace distill
