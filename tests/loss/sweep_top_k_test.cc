// A row's sweep of top-k KL: which words are among the k, and what the tail is.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/loss/sweep_reference.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using testing::AllLoops;
using testing::Compute;
using testing::Error;
using testing::Expected;
using testing::Loops;
using testing::Random;

TEST_CASE("the top k are those at the k-th largest logit or above it, ties among them") {
  for (const Loops& loops : AllLoops()) {
    for (const int64_t size : {5, 1000, 3001}) {
      std::vector<float> teacher = Random(size, 2, 2);
      for (float& logit : teacher) logit = std::round(logit * 4) / 4;  // many are alike
      for (const int64_t top_k : {int64_t{1}, int64_t{2}, int64_t{64}, int64_t{1000}, kMostTopK}) {
        const SweepOptions options{.vocabulary = size,
                                   .divergence = Divergence::kTopKKl,
                                   .top_k = top_k,
                                   .temperature = 2,
                                   .alpha = 0.7f,
                                   .student = {},
                                   .teacher = {}};
        std::vector<float> student = Random(size, 2, 1);
        const Expected expected = Compute(student, teacher, 2, options);
        const SweepSums sums = loops.row({student.data()}, {teacher.data()}, 2, options);
        INFO(loops.name << ", " << top_k << " of " << size);
        CHECK(sums.divergence == Approx(expected.divergence).epsilon(1e-5).margin(1e-6));
        CHECK(Error(student, expected) < 1e-5);
      }
    }
  }
}

TEST_CASE("what a teacher of top-k values does not name has the tail's probability together") {
  for (const Loops& loops : AllLoops()) {
    for (const int64_t size : {7, 1500}) {
      for (const double tail : {1e-6, 0.25, 0.999}) {
        for (const int64_t top_k : {2, 4, 64}) {
          std::vector<float> teacher(static_cast<size_t>(size), -INFINITY), values = {-0.5f, -1.0f, -3.0f, -2.0f};
          double mass = 0;
          for (const float value : values) mass += std::exp(value);
          std::vector<float> spread(static_cast<size_t>(size), -1000.0f);
          for (size_t i = 0; i < values.size(); ++i) {
            values[i] += static_cast<float>(std::log((1 - tail) / mass));
            teacher[3 * i / 2] = spread[3 * i / 2] = values[i];
          }
          for (float& value : spread) value = std::max(value, values[0] - static_cast<float>(kUnnamed));
          const SweepOptions options{.vocabulary = size,
                                     .divergence = Divergence::kTopKKl,
                                     .top_k = top_k,
                                     .alpha = 0.7f,
                                     .student = {},
                                     .teacher = {}};
          std::vector<float> student = Random(size, 2, 1);
          const Expected expected = Compute(student, teacher, 1, options, tail);
          const auto log_tail = static_cast<float>(std::log(tail));
          const SweepSums sums = loops.row(
              {student.data()}, {.values = spread.data(), .dtype = DType::kFloat32, .tail = &log_tail}, 1, options);
          INFO(loops.name << ", " << size << " words, a tail of " << tail << ", " << top_k);
          CHECK(sums.divergence == Approx(expected.divergence).epsilon(1e-5).margin(1e-6));
          CHECK(Error(student, expected) < 1e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace distill
