// The device's arithmetic, compiled for the CPU, against the CPU's own loops: the same bits. What the kernels do on a
// GPU is in nccl_test.cc.
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/core/random.h"
#include "tests/comm/device_elements.h"
#include "tests/comm/integer_average.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// Numbers of every size and sign in the type; of floats neither infinite nor NaN, whose payloads may differ.
std::vector<char> Numbers(Random& random, int64_t count, DType dtype) {
  std::vector<char> bytes(static_cast<size_t>(count * SizeOf(dtype)));
  for (int64_t i = 0; i < count; ++i) {
    char* at = bytes.data() + i * SizeOf(dtype);
    const double value = (random.Uniform() - 0.5) * (i % 3 == 0 ? 1e-6 : 16);
    const float narrow = static_cast<float>(value);
    if (dtype == DType::kFloat64) {
      std::memcpy(at, &value, sizeof(value));
    } else if (dtype == DType::kFloat32) {
      std::memcpy(at, &narrow, sizeof(narrow));
    } else if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) {
      NarrowFromFloat(&narrow, at, 1, dtype);
    } else {
      for (int64_t b = 0; b < SizeOf(dtype); ++b) at[b] = static_cast<char>(random.Below(256));
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("the device's arithmetic gives the bits of the CPU's") {
  constexpr int64_t kCount = 4099;
  const DType dtype = GENERATE(DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt32,
                               DType::kInt64, DType::kUInt8);
  Random random(11, static_cast<uint64_t>(dtype));
  for (const int source_count : {1, 2, 5}) {
    std::vector<std::vector<char>> data;
    std::vector<const void*> sources;
    for (int s = 0; s < source_count; ++s) data.push_back(Numbers(random, kCount, dtype));
    for (const std::vector<char>& one : data) sources.push_back(one.data());
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      for (const int divisor : {1, 3}) {
        CAPTURE(NameOf(dtype), source_count, NameOf(op), divisor);
        std::vector<char> expected(data[0].size());
        std::vector<char> got(data[0].size());
        Reduce(expected.data(), sources.data(), source_count, kCount, dtype, op, divisor);
        testing::ReduceElements(got.data(), sources.data(), source_count, kCount, dtype, op, divisor);
        CHECK(got == expected);
      }
    }
  }
}

// As after NCCL, whose sums wrap in the type, and as where one rank adds all.
TEST_CASE("averages of integers over up to 4,096 ranks are the wrapped sum divided, as a device does it") {
  constexpr int64_t kCount = 256;
  const DType dtype = GENERATE(DType::kUInt8, DType::kInt32, DType::kInt64);
  for (const int ranks : {2, 3, 127, 128, 255, 256, 257, 300, 500, 512, 1000, 4095, 4096}) {
    CAPTURE(NameOf(dtype), ranks);
    Random random(7, static_cast<uint64_t>(ranks));
    const int source_count = ranks <= kMostDeviceSources ? ranks : 1;
    std::vector<std::vector<char>> data;
    std::vector<const void*> sources;
    for (int s = 0; s < source_count; ++s) data.push_back(Numbers(random, kCount, dtype));
    for (const std::vector<char>& one : data) sources.push_back(one.data());
    std::vector<char> got(data[0].size());
    testing::ReduceElements(got.data(), sources.data(), source_count, kCount, dtype, ReduceOp::kAverage, ranks);
    for (int64_t i = 0; i < kCount; ++i) {
      uint64_t sum = 0;
      for (const std::vector<char>& one : data) {
        sum += static_cast<uint64_t>(testing::LoadInteger(one.data() + i * SizeOf(dtype), dtype));
      }
      REQUIRE(testing::LoadInteger(got.data() + i * SizeOf(dtype), dtype) == testing::AverageOf(sum, ranks, dtype));
    }
  }
}

}  // namespace distill
