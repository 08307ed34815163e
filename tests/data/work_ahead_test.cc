#include "libdistill/data/work_ahead.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr std::chrono::seconds kLongEnough{20};

// Doors that parts of a test pass, or wait at until the test opens them.
class Doors {
 public:
  // Returns when it is open. Notes how many wait at once.
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait_for(lock, kLongEnough, [this] { return is_open_; });
    --waiting_;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  bool WaitFor(int64_t waiting) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLongEnough, [&] { return waiting_ == waiting; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int64_t waiting_ = 0;
};

struct Sums : WorkAhead::Work {
  Sums(int64_t of_number, int64_t of_parts) : number(of_number), parts(static_cast<size_t>(of_parts)) {}
  int64_t num_parts() const override { return std::ssize(parts); }
  int64_t weight() const override { return 1; }
  bool is_last() const override { return ends; }
  void Do(int64_t part) override {
    if (door != nullptr) door->Pass();
    parts[static_cast<size_t>(part)] += number + part;  // not atomic: no other thread may have this part
    if (done != nullptr) ++*done;
  }
  bool IsDoneOnce() const {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] != number + static_cast<int64_t>(i)) return false;
    }
    return true;
  }

  const int64_t number;
  std::vector<int64_t> parts;
  bool ends = false;
  Doors* door = nullptr;
  std::atomic<int64_t>* done = nullptr;
};

const Sums& SumsOf(const std::shared_ptr<WorkAhead::Work>& work) { return static_cast<const Sums&>(*work); }

TEST_CASE("pieces come in order, each part done by one thread, whatever is forgotten in between") {
  for (const int64_t threads : {0, 1, 3, 8}) {
    int64_t next = 0;
    const auto begin = [&] {
      const int64_t number = next++;
      return std::make_shared<Sums>(number, 1 + number % 7);
    };
    WorkAhead ahead(begin, {.threads = threads, .capacity = 5});
    std::minstd_rand random(1);
    int64_t expected = 0;
    bool all_well = true;
    for (int64_t i = 0; i < 3000; ++i) {
      const auto work = ahead.Next();
      all_well = all_well && SumsOf(work).number == expected++ && SumsOf(work).IsDoneOnce();
      if (random() % 50 != 0) continue;
      ahead.WhileNoneBegins([&] { all_well = all_well && next >= expected; });
      ahead.Drop();
      expected = next = next + 3;  // nobody is in `begin` now
    }
    INFO(threads << " threads");
    CHECK(all_well);
  }
}

TEST_CASE("as many parts are under way as there are threads, of one piece or of several") {
  for (const int64_t parts : {1, 3, 20}) {
    Doors door;
    int64_t begun = 0;
    const auto begin = [&] {
      auto work = std::make_shared<Sums>(begun++, parts);
      work->door = &door;
      return work;
    };
    WorkAhead ahead(begin, {.threads = 8, .capacity = 8});
    std::thread opener([&] {
      CHECK(door.WaitFor(8));
      door.Open();
    });
    for (int64_t i = 0; i < 10; ++i) CHECK(SumsOf(ahead.Next()).IsDoneOnce());
    opener.join();
  }
}

// The first piece at once; the parts of the others wait at the door.
WorkAhead::Begin BeginAtDoor(Doors& door, std::atomic<int64_t>& done) {
  return [&door, &done, begun = int64_t{0}]() mutable {
    auto work = std::make_shared<Sums>(begun, 100);
    if (begun++ > 0) {
      work->door = &door;
      work->done = &done;
    }
    return work;
  };
}

TEST_CASE("parts of what was forgotten that are under way come to their end, and no other is begun") {
  Doors door;
  std::atomic<int64_t> done = 0;
  {
    WorkAhead ahead(BeginAtDoor(door, done), {.threads = 2, .capacity = 8});
    CHECK(SumsOf(ahead.Next()).number == 0);
    REQUIRE(door.WaitFor(2));
    ahead.Drop();
    door.Open();
  }
  CHECK(done == 2);
}

TEST_CASE("the end waits for the parts that are under way, not for the rest of their piece") {
  Doors door;
  std::atomic<int64_t> done = 0;
  std::thread opener;
  {
    WorkAhead ahead(BeginAtDoor(door, done), {.threads = 2, .capacity = 8});
    CHECK(SumsOf(ahead.Next()).number == 0);
    REQUIRE(door.WaitFor(2));
    opener = std::thread([&] {
      absl::SleepFor(absl::Milliseconds(200));  // meanwhile the end has begun
      door.Open();
    });
  }
  opener.join();
  CHECK(done >= 2);
  CHECK(done < 100);
}

TEST_CASE(
    "no more is begun than there is room for, or than is wanted; without threads nothing is, before it is asked for") {
  for (const int64_t threads : {0, 2}) {
    int64_t begun = 0;
    const auto begin = [&] { return std::make_shared<Sums>(begun++, 2); };
    WorkAhead ahead(begin, {.threads = threads, .capacity = 3, .pieces = 5});
    CHECK(begun == 0);
    for (int64_t i = 0; i < 8; ++i) {
      CHECK(SumsOf(ahead.Next()).number == i);
      absl::SleepFor(absl::Milliseconds(5));
      const int64_t most = threads == 0 ? i + 1 : std::max(std::min<int64_t>(i + 4, 5), i + 1);
      ahead.WhileNoneBegins([&] { CHECK(begun <= most); });
    }
    CHECK(begun == 8);
  }
}

TEST_CASE("nothing is begun after a last piece, until it is forgotten") {
  int64_t begun = 0;
  const auto begin = [&] {
    auto work = std::make_shared<Sums>(begun, 1);
    work->ends = begun++ % 3 == 2;
    return work;
  };
  WorkAhead ahead(begin, {.threads = 4, .capacity = 10});
  for (int64_t i = 0; i < 3; ++i) CHECK(SumsOf(ahead.Next()).number == i);
  absl::SleepFor(absl::Milliseconds(5));
  ahead.Drop();
  CHECK(begun == 3);
  CHECK(SumsOf(ahead.Next()).number == 3);
}

}  // namespace
}  // namespace distill
