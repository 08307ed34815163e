// A row's sweep over products in bfloat16 and float16.
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/loss/sweep_reference.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using testing::AllLoops;
using testing::Loops;
using testing::Random;

std::vector<uint16_t> ToBFloats(const std::vector<float>& values) {
  std::vector<uint16_t> narrow;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    narrow.push_back(static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16));
  }
  return narrow;
}

std::vector<float> FromBFloats(const std::vector<uint16_t>& values) {
  std::vector<float> wide(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = static_cast<uint32_t>(values[i]) << 16;
    std::memcpy(&wide[i], &bits, sizeof(bits));
  }
  return wide;
}

TEST_CASE("bfloat16 products are read exactly, and their gradients rounded once") {
  constexpr int64_t kSize = 1037;
  for (const Loops& loops : AllLoops()) {
    std::vector<uint16_t> student = ToBFloats(Random(kSize, 2, 1)), teacher = ToBFloats(Random(kSize, 2, 2));
    const SweepOptions options{.vocabulary = kSize,
                               .divergence = Divergence::kForwardKl,
                               .temperature = 2,
                               .alpha = 0.5f,
                               .student = {},
                               .teacher = {}};
    std::vector<float> wide = FromBFloats(student);
    std::vector<float> wide_teacher = FromBFloats(teacher);
    const SweepSums expected = loops.row({wide.data()}, {wide_teacher.data()}, 7, options);
    const SweepSums actual =
        loops.row({student.data(), DType::kBFloat16}, {teacher.data(), DType::kBFloat16}, 7, options);
    CHECK(actual.divergence == expected.divergence);
    CHECK(actual.ce == expected.ce);
    CHECK(student == ToBFloats(wide));
  }
}

std::vector<uint16_t> ToHalfs(const std::vector<float>& values) {
  std::vector<uint16_t> narrow;
  for (const float value : values) {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(&narrow.emplace_back(), &half, sizeof(half));
  }
  return narrow;
}

std::vector<float> FromHalfs(const std::vector<uint16_t>& values) {
  std::vector<float> wide;
  for (const uint16_t bits : values) {
    _Float16 half;
    std::memcpy(&half, &bits, sizeof(half));
    wide.push_back(half);
  }
  return wide;
}

TEST_CASE("float16 products are read exactly, and their gradients scaled, then rounded once") {
  constexpr int64_t kSize = 1037;
  for (const Loops& loops : AllLoops()) {
    for (const float scale : {1.0f, 4096.0f, 1e9f}) {
      std::vector<float> deviates = Random(kSize, 2, 1);
      deviates[3] = 1e-7f;  // a subnormal number
      std::vector<uint16_t> student = ToHalfs(deviates), teacher = ToHalfs(Random(kSize, 2, 2));
      SweepOptions options{.vocabulary = kSize,
                           .divergence = Divergence::kForwardKl,
                           .temperature = 2,
                           .alpha = 0.5f,
                           .student = {},
                           .teacher = {}};
      std::vector<float> wide = FromHalfs(student), wide_teacher = FromHalfs(teacher);
      const SweepSums expected = loops.row({wide.data()}, {wide_teacher.data()}, 7, options);
      options.gradient_scale = scale;
      const SweepSums actual =
          loops.row({student.data(), DType::kFloat16}, {teacher.data(), DType::kFloat16}, 7, options);
      CHECK(actual.divergence == expected.divergence);
      CHECK(actual.ce == expected.ce);
      for (float& value : wide) value *= scale;
      CHECK(student == ToHalfs(wide));
      CHECK(std::isinf(FromHalfs(student)[7]) == (scale > 1e6f));
    }
  }
}

}  // namespace
}  // namespace distill
