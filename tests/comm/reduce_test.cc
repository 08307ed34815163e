#include "libdistill/comm/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "libdistill/comm/reduce_table.h"
#include "libdistill/core/random.h"
#include "libdistill/core/vectors.h"
#include "tests/comm/integer_average.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// The tables that this machine can run.
std::vector<const ReduceTable*> Tables() {
  std::vector<const ReduceTable*> tables = {&kReducePlain};
#if defined(__x86_64__)
  if (VectorsOfThisCpu() != Vectors::kPlain) tables.push_back(&kReduceAvx2);
  if (VectorsOfThisCpu() == Vectors::kAvx512) tables.push_back(&kReduceAvx512);
#endif
  return tables;
}

float FromBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

TEST_CASE("every float16 and bfloat16 survives widening and narrowing, on every instruction set") {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const ReduceTable* table : Tables()) {
    std::vector<float> wide(all.size());
    std::vector<uint16_t> narrow(all.size());
    table->widen_bfloat(all.data(), wide.data(), 65536);
    table->narrow_bfloat(wide.data(), narrow.data(), 65536);
    for (size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(wide[i])) {
        REQUIRE((narrow[i] & 0x7fff) > 0x7f80);
      } else {
        REQUIRE(narrow[i] == all[i]);
      }
    }
    table->widen_half(all.data(), wide.data(), 65536);
    table->narrow_half(wide.data(), narrow.data(), 65536);
    for (size_t i = 0; i < all.size(); ++i) {
      const int exponent = static_cast<int>(i >> 10 & 31);
      const int mantissa = static_cast<int>(i & 1023);
      if (exponent == 31 && mantissa != 0) {
        REQUIRE(std::isnan(wide[i]));
        REQUIRE((narrow[i] & 0x7fff) > 0x7c00);
        continue;
      }
      const double magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                               : exponent == 0 ? std::ldexp(mantissa, -24)
                                               : std::ldexp(1024 + mantissa, exponent - 25);
      REQUIRE(wide[i] == static_cast<float>(i >> 15 ? -magnitude : magnitude));
      REQUIRE(narrow[i] == all[i]);
    }
  }
}

TEST_CASE("narrowing rounds to nearest, ties to even, on every instruction set") {
  struct Rounding {
    uint32_t bits;
    uint16_t half, bfloat;
  };
  const Rounding cases[] = {
      {0x3f800000, 0x3c00, 0x3f80},                                // 1
      {0x3f801000, 0x3c00, 0x3f80},                                // 1 + half a step of float16: to even
      {0x3f803000, 0x3c02, 0x3f80},                                // 1 + one and a half
      {0x3f801001, 0x3c01, 0x3f80},                                // just above a tie
      {0x3f808000, 0x3c04, 0x3f80},                                // 1 + half a step of bfloat16: to even
      {0x3f818000, 0x3c0c, 0x3f82},                                // 1 + one and a half
      {0x477fefff, 0x7bff, 0x4780},                                // the largest that float16 still holds
      {0x477ff000, 0x7c00, 0x4780},                                // and the tie to infinity
      {0x33000000, 0x0000, 0x3300},                                // half of the smallest float16: to even, zero
      {0x33000001, 0x0001, 0x3300}, {0x7f7fffff, 0x7c00, 0x7f80},  // the largest float32
      {0x80000000, 0x8000, 0x8000},                                // minus zero
      {0xff800000, 0xfc00, 0xff80},
  };
  for (const ReduceTable* table : Tables()) {
    for (const Rounding& rounding : cases) {
      // Many, so that the vector loop and its remainder both see them.
      const std::vector<float> in(19, FromBits(rounding.bits));
      std::vector<uint16_t> half(19);
      std::vector<uint16_t> bfloat(19);
      table->narrow_half(in.data(), half.data(), 19);
      table->narrow_bfloat(in.data(), bfloat.data(), 19);
      CHECK(half == std::vector<uint16_t>(19, rounding.half));
      CHECK(bfloat == std::vector<uint16_t>(19, rounding.bfloat));
    }
  }
}

TEST_CASE("every instruction set gives the same bits, to one output and to several") {
  constexpr size_t kCount = 2500;
  std::vector<std::vector<float>> data(3, std::vector<float>(kCount));
  Random random(1);
  for (auto& source : data) {
    for (float& x : source) x = static_cast<float>(random.Uniform() * 4 - 2);
  }
  const void* sources[] = {data[0].data(), data[1].data(), data[2].data()};
  for (int op = 0; op < kReduceOps; ++op) {
    for (const int source_count : {1, 2, 3}) {
      for (const int divisor : {1, 3}) {
        std::vector<float> plain(kCount);
        void* plain_out = plain.data();
        kReducePlain.loops[0][op](&plain_out, 1, sources, source_count, kCount, divisor, 0);
        for (const ReduceTable* table : Tables()) {
          std::vector<std::vector<float>> outs(3, std::vector<float>(kCount));
          void* const targets[] = {outs[0].data(), outs[1].data(), outs[2].data()};
          for (const int out_count : {1, 2, 3}) {
            for (const int streamed : {0, 1, out_count}) {
              for (auto& out : outs) std::fill(out.begin(), out.end(), -1.0f);
              table->loops[0][op](targets, out_count, sources, source_count, kCount, divisor, streamed);
              for (int o = 0; o < out_count; ++o) CHECK(outs[static_cast<size_t>(o)] == plain);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("copies of any length and alignment are exact, through the caches and past them") {
  std::vector<char> from(20'000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 31 % 251);
  for (const ReduceTable* table : Tables()) {
    for (const int64_t length : {0, 1, 15, 31, 64, 65, 255, 256, 257, 511, 4096, 16'001}) {
      for (const size_t offset : {0, 1, 16, 63}) {
        for (const bool stream : {false, true}) {
          std::vector<char> to(from.size(), 'x');
          std::vector<char> expected = to;
          std::memcpy(expected.data() + 3 * offset, from.data() + offset, static_cast<size_t>(length));
          table->copy(from.data() + offset, to.data() + 3 * offset, length, stream);
          CHECK(to == expected);
        }
      }
    }
  }
}

TEST_CASE("16-bit sums are rounded once") {
  // 2048 + 1 + 1 in float16 and 256 + 1 + 1 in bfloat16 stay where they are when rounded after each addition.
  const uint16_t half[3] = {0x6800, 0x3c00, 0x3c00};
  const uint16_t bfloat[3] = {0x4380, 0x3f80, 0x3f80};
  const void* halves[] = {&half[0], &half[1], &half[2]};
  const void* bfloats[] = {&bfloat[0], &bfloat[1], &bfloat[2]};
  uint16_t out = 0;
  Reduce(&out, halves, 3, 1, DType::kFloat16, ReduceOp::kSum);
  CHECK(out == 0x6801);
  Reduce(&out, bfloats, 3, 1, DType::kBFloat16, ReduceOp::kSum);
  CHECK(out == 0x4381);
}

TEST_CASE("integers wrap, and averages are divided once, with truncation") {
  const int32_t big[2] = {std::numeric_limits<int32_t>::max(), 2};
  const void* sources[] = {&big[0], &big[1]};
  int32_t out = 0;
  Reduce(&out, sources, 2, 1, DType::kInt32, ReduceOp::kSum);
  CHECK(out == std::numeric_limits<int32_t>::min() + 1);
  const int64_t odd[2] = {-4, -3};
  const void* odds[] = {&odd[0], &odd[1]};
  int64_t average = 0;
  Reduce(&average, odds, 2, 1, DType::kInt64, ReduceOp::kAverage, 2);
  CHECK(average == -3);
  const uint8_t bytes[2] = {200, 100};
  const void* two[] = {&bytes[0], &bytes[1]};
  uint8_t sum = 0;
  Reduce(&sum, two, 2, 1, DType::kUInt8, ReduceOp::kSum);
  CHECK(sum == 44);
}

TEST_CASE("averages of integers over up to 4,096 ranks are the wrapped sum divided, on every instruction set") {
  constexpr int64_t kCount = 67;  // a vector and a rest
  const DType dtype = GENERATE(DType::kUInt8, DType::kInt32, DType::kInt64);
  const int ranks = GENERATE(1, 2, 3, 127, 128, 129, 255, 256, 257, 300, 511, 512, 513, 1000, 2048, 4095, 4096);
  CAPTURE(NameOf(dtype), ranks);
  Random random(5, static_cast<uint64_t>(ranks));
  std::vector<std::vector<char>> data(static_cast<size_t>(ranks));
  std::vector<const void*> all;
  std::vector<uint64_t> sums(kCount);
  for (std::vector<char>& source : data) {
    source.resize(static_cast<size_t>(kCount * SizeOf(dtype)));
    for (char& byte : source) byte = static_cast<char>(random.Below(256));
    all.push_back(source.data());
    for (int64_t i = 0; i < kCount; ++i) {
      sums[static_cast<size_t>(i)] +=
          static_cast<uint64_t>(testing::LoadInteger(source.data() + i * SizeOf(dtype), dtype));
    }
  }
  std::vector<char> sum(data[0].size());
  std::vector<char> rest(data[0].size());
  std::vector<char> got(data[0].size());
  Reduce(sum.data(), all.data(), ranks, kCount, dtype, ReduceOp::kSum);
  if (ranks > 1) Reduce(rest.data(), all.data() + 1, ranks - 1, kCount, dtype, ReduceOp::kSum);
  const void* const one[] = {sum.data()};                   // a sum that is divided afterwards
  const void* const two[] = {rest.data(), data[0].data()};  // the last step of a ring
  const auto check = [&](const void* const* sources, int source_count) {
    for (const ReduceTable* table : Tables()) {
      std::fill(got.begin(), got.end(), 'x');
      void* out = got.data();
      table->loops[static_cast<size_t>(dtype)][0](&out, 1, sources, source_count, kCount, ranks, 0);
      for (int64_t i = 0; i < kCount; ++i) {
        REQUIRE(testing::LoadInteger(got.data() + i * SizeOf(dtype), dtype) ==
                testing::AverageOf(sums[static_cast<size_t>(i)], ranks, dtype));
      }
    }
  };
  check(all.data(), ranks);
  check(one, 1);
  check(two, 2);
}

TEST_CASE("averages of floats over 4,096 ranks are divided by 4,096") {
  const std::vector<float> value(4096, 3.0f);
  std::vector<const void*> sources;
  for (const float& x : value) sources.push_back(&x);
  float average = 0;
  Reduce(&average, sources.data(), 4096, 1, DType::kFloat32, ReduceOp::kAverage, 4096);
  CHECK(average == 3.0f);
}

TEST_CASE("the result may take the place of a source") {
  std::vector<double> a(3000, 1.5);
  std::vector<double> b(3000, 2.0);
  const void* sources[] = {a.data(), b.data()};
  Reduce(a.data(), sources, 2, 3000, DType::kFloat64, ReduceOp::kProduct);
  CHECK(a == std::vector<double>(3000, 3.0));
  Reduce(b.data(), sources, 2, 3000, DType::kFloat64, ReduceOp::kMax);
  CHECK(b == std::vector<double>(3000, 3.0));
}

}  // namespace
}  // namespace distill
