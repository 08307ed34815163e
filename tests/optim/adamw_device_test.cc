// The GPU's arithmetic and how it deals runs out to blocks, on the CPU; update_runs_test.cc runs the kernel itself
// where there is a GPU.
#include <memory>

#include "tests/optim/adamw_as_threads.h"
#include "tests/optim/adamw_state.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using testing::AdamWState;

TEST_CASE("launches take every element of every run once") {
  const AdamWFactors factors = FactorsOf(0.9, 0.999, 1e-8, 0.01, 0.1, 7.0, 3);
  std::vector<std::unique_ptr<AdamWState>> expected, actual;
  std::vector<AdamWRun> runs;
  const std::vector<int64_t> counts = {
      1, 0, kElementsOfBlock - 1, kElementsOfBlock, kElementsOfBlock + 1, 0, 3 * kElementsOfBlock + 17};
  for (uint32_t i = 0; i < 2 * kRunsOfLaunch + 5; ++i) {
    const int64_t count = i < counts.size() ? counts[i] : static_cast<int64_t>(i);
    expected.push_back(std::make_unique<AdamWState>(count, i, 0, i % 3 != 0));
    actual.push_back(std::make_unique<AdamWState>(count, i, 0, i % 3 != 0));
    runs.push_back(actual.back()->run);
    SweepAdamW(expected.back()->run, factors);
  }
  int launches = 0;
  for (int64_t next = 0; next < static_cast<int64_t>(runs.size()); ++launches) {
    testing::UpdateAsThreads(NextLaunch(runs.data(), static_cast<int64_t>(runs.size()), next, factors), 64);
  }
  CHECK(launches == 3);
  for (size_t i = 0; i < runs.size(); ++i) {
    INFO("run " << i);
    for (size_t e = 0; e < expected[i]->master.size(); ++e) {
      CHECK(actual[i]->master[e] == Approx(expected[i]->master[e]).epsilon(1e-5).margin(1e-6));
      CHECK(actual[i]->exp_avg_sq[e] == Approx(expected[i]->exp_avg_sq[e]).epsilon(1e-5));
      CHECK(std::abs(actual[i]->working[e] - expected[i]->working[e]) <= 1);
    }
  }
}

}  // namespace
}  // namespace distill
