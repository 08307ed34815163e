// Sums of squares as GPUs take them: by LibTorch's reference, by the kernels' arithmetic on the CPU, and by the kernels
// themselves where there is a GPU.
#include "libdistill/gradients/device_squares.h"

#include <ATen/Context.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "libdistill/core/random.h"
#include "tests/gradients/squares_as_threads.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// Around what a thread, a block and all blocks take, and a bucket of 25 MiB.
const std::vector<int64_t> kCounts = {1,     2,     255,       256,       257,       4095,      4096,     4097,
                                      10007, 65536, 1'000'003, 4'194'303, 4'194'304, 4'194'309, 6'553'600};

// Of every size where `wide`: sums of squares that float32 could not hold.
std::vector<float> Values(int64_t count, bool wide) {
  Random random(5, static_cast<uint64_t>(count));
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) {
    const double scale = wide ? std::pow(10.0, 50 * (random.Uniform() - 0.5)) : 1e-3;
    x = static_cast<float>(scale * (random.Uniform() - 0.5));
  }
  return values;
}

double LongSumOfSquares(const std::vector<float>& values) {
  long double sum = 0;
  for (const long double x : values) sum += x * x;
  return static_cast<double>(sum);
}

torch::Tensor AsTensor(const std::vector<float>& values) {
  return torch::from_blob(const_cast<float*>(values.data()), {static_cast<int64_t>(values.size())});
}

}  // namespace

TEST_CASE("the kernels' arithmetic gives the sum of squares, however the values are dealt to threads") {
  for (const int64_t count : kCounts) {
    for (const bool wide : {false, true}) {
      const std::vector<float> values = Values(count, wide);
      CAPTURE(count, wide);
      CHECK(testing::SumOfSquaresAsThreads(values.data(), count) == Approx(LongSumOfSquares(values)).epsilon(1e-13));
    }
  }
}

TEST_CASE("the kernels' arithmetic is exact where sums are, and passes on what is not finite") {
  for (const int64_t count : kCounts) {
    std::vector<float> values(static_cast<size_t>(count), 3.0f);
    CHECK(testing::SumOfSquaresAsThreads(values.data(), count) == 9.0 * static_cast<double>(count));
    values.back() = std::numeric_limits<float>::infinity();
    CHECK(std::isinf(testing::SumOfSquaresAsThreads(values.data(), count)));
    values.front() = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(testing::SumOfSquaresAsThreads(values.data(), count)));
  }
}

TEST_CASE("the reference adds up rows in float32, to a millionth") {
  for (const int64_t count : kCounts) {
    const std::vector<float> values = Values(count, false);
    CAPTURE(count);
    CHECK(SumOfSquaresByRows(AsTensor(values)) == Approx(LongSumOfSquares(values)).epsilon(1e-6));
  }
  CHECK(SumOfSquaresByRows(torch::empty({0})) == 0);
  CHECK(std::isnan(SumOfSquaresByRows(torch::full({5000}, std::numeric_limits<float>::quiet_NaN()))));
}

TEST_CASE("a GPU gives the bits of the kernels' arithmetic", "[gpu]") {
  if (!at::globalContext().hasCUDA()) return static_cast<void>(std::printf("skipped: no GPU here\n"));
  DeviceSquares squares;
  for (const int64_t count : kCounts) {
    const std::vector<float> values = Values(count, true);
    CAPTURE(count);
    CHECK(squares.Sum(AsTensor(values).to(at::kCUDA)) == testing::SumOfSquaresAsThreads(values.data(), count));
  }
  CHECK(squares.Sum(torch::empty({0}, at::kCUDA)) == 0);
}

}  // namespace distill
