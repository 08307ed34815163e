#include "libdistill/tensor/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/support/catch.h"

namespace distill {
namespace {

class Threads {
 public:
  explicit Threads(int threads) { at::set_num_threads(threads); }
  ~Threads() { at::set_num_threads(before_); }

 private:
  const int before_ = at::get_num_threads();
};

TEST_CASE("work is done on all of LibTorch's threads, each part once") {
  for (const int threads : {1, 2, 4}) {
    const Threads set(threads);
    std::mutex mutex;
    std::set<std::thread::id> seen;
    std::vector<int> times(1000);
    ParallelFor(1000, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++times[static_cast<size_t>(i)];
      const std::lock_guard<std::mutex> lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    CHECK(seen.size() == static_cast<size_t>(threads));
    CHECK(std::count(times.begin(), times.end(), 1) == 1000);
  }
}

TEST_CASE("what a part throws is thrown on") {
  const Threads set(2);
  CHECK_THROWS_AS(ParallelFor(10, 1,
                              [](int64_t begin, int64_t) {
                                if (begin > 0) throw std::runtime_error("no");
                              }),
                  std::runtime_error);
}

}  // namespace
}  // namespace distill
