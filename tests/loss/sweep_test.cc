#include "libdistill/loss/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "libdistill/core/vectors.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

struct Expected {
  double divergence = 0, ce = 0;
  std::vector<double> gradient;
};

std::vector<double> Logits(const std::vector<float>& products, const HeadOutput& head) {
  std::vector<double> logits(products.begin(), products.end());
  for (size_t v = 0; v < logits.size(); ++v) {
    if (head.bias != nullptr) logits[v] += head.bias[v];
    logits[v] *= head.scale;
    if (head.softcap > 0) logits[v] = head.softcap * std::tanh(logits[v] / head.softcap);
  }
  return logits;
}

std::vector<double> LogSoftmax(std::vector<double> logits, double temperature) {
  double largest = -INFINITY, sum = 0;
  for (double& logit : logits) largest = std::max(largest, logit /= temperature);
  for (const double logit : logits) sum += std::exp(logit - largest);
  for (double& logit : logits) logit -= largest + std::log(sum);
  return logits;
}

double LogAdd(double a, double b) { return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b))); }

// In float64, straight from the formulas of docs/losses.md.
Expected Compute(const std::vector<float>& student, const std::vector<float>& teacher, size_t label,
                 const SweepOptions& o) {
  const std::vector<double> z = Logits(student, o.student), log_s = LogSoftmax(z, 1), q = LogSoftmax(z, o.temperature);
  const size_t size = z.size();
  Expected expected{.divergence = 0, .ce = -log_s[label], .gradient = std::vector<double>(size)};
  std::vector<double> of_divergence(size, 0.0);
  if (o.divergence != Divergence::kNone) {
    const std::vector<double> p = LogSoftmax(Logits(teacher, o.teacher), o.temperature);
    const bool forward = o.divergence == Divergence::kForwardKl;
    const double beta = forward ? 0 : o.divergence == Divergence::kReverseKl ? 1 : o.beta;
    double row_sum = 0;
    std::vector<double> ratio(size);
    for (size_t v = 0; v < size; ++v) {
      const double log_m = beta == 1 ? p[v] : LogAdd(std::log(beta) + p[v], std::log1p(-beta) + q[v]);
      ratio[v] = q[v] - log_m;
      row_sum += std::exp(q[v]) * ratio[v];
      if (forward) expected.divergence += std::exp(p[v]) * (p[v] - q[v]);
      if (beta > 0 && beta < 1) expected.divergence += beta * std::exp(p[v]) * (p[v] - log_m);
    }
    const double weight = beta == 1 ? 1 : 1 - beta;
    if (!forward) expected.divergence += weight * row_sum;
    for (size_t v = 0; v < size; ++v) {
      of_divergence[v] = forward ? std::exp(q[v]) - std::exp(p[v]) : weight * std::exp(q[v]) * (ratio[v] - row_sum);
    }
  }
  for (size_t v = 0; v < size; ++v) {
    double gradient =
        o.alpha * o.temperature * of_divergence[v] + (1.0 - o.alpha) * (std::exp(log_s[v]) - (v == label ? 1 : 0));
    if (o.student.softcap > 0) gradient *= 1 - z[v] * z[v] / (o.student.softcap * o.student.softcap);
    expected.gradient[v] = gradient * o.student.scale;
  }
  return expected;
}

std::vector<float> Random(int64_t size, double deviation, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = normal(random);
  return values;
}

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

// The greatest difference, over the greatest value, or over 0.01 where all are smaller.
double Error(const std::vector<float>& actual, const std::vector<double>& expected) {
  double worst = 0, largest = 0.01;
  for (size_t i = 0; i < actual.size(); ++i) {
    worst = std::max(worst, std::abs(actual[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst / largest;
}

struct Loops {
  const char* name;
  SweepRowFunction row;
};

// Those that this CPU can run; a test of the others would be ended by the first wide instruction.
std::vector<Loops> AllLoops() {
  std::vector<Loops> all = {{"plain", kSweepPlain}};
#if defined(__x86_64__)
  if (VectorsOfThisCpu() != Vectors::kPlain) all.push_back({"avx2", kSweepAvx2});
  if (VectorsOfThisCpu() == Vectors::kAvx512) all.push_back({"avx512", kSweepAvx512});
#endif
  return all;
}

constexpr Divergence kAll[] = {Divergence::kNone, Divergence::kForwardKl, Divergence::kReverseKl,
                               Divergence::kJensenShannon};

void CheckRow(const Loops& loops, int64_t size, const SweepOptions& options, double deviation) {
  const std::vector<float> student = Random(size, deviation, 1), teacher = Random(size, deviation, 2);
  const auto label = static_cast<size_t>(size / 3);
  const Expected expected = Compute(student, teacher, label, options);
  std::vector<float> in_place = student, unchanged = teacher;
  const SweepSums sums = loops.row({in_place.data()}, {unchanged.data()}, static_cast<int64_t>(label), options);
  INFO(loops.name << ", " << size << " words, divergence " << static_cast<int>(options.divergence) << ", T "
                  << options.temperature << ", alpha " << options.alpha << ", deviation " << deviation);
  CHECK(sums.divergence == Approx(expected.divergence).epsilon(1e-5).margin(1e-6));
  CHECK(sums.ce == Approx(expected.ce).epsilon(1e-6).margin(1e-6));
  CHECK(Error(in_place, expected.gradient) < 1e-5);
  CHECK(unchanged == teacher);
}

TEST_CASE("each CPU's loops give what float64 gives, at every length around a vector and a block") {
  for (const Loops& loops : AllLoops()) {
    for (const int64_t size : {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 1023, 1024, 1025, 2049, 5003}) {
      for (const Divergence divergence : kAll) {
        for (const float temperature : {0.7f, 1.0f, 2.0f}) {
          for (const float alpha : {0.0f, 0.6f, 1.0f}) {
            const SweepOptions options{.vocabulary = size,
                                       .divergence = divergence,
                                       .beta = 0.3f,
                                       .temperature = temperature,
                                       .alpha = alpha,
                                       .student = {},
                                       .teacher = {}};
            CheckRow(loops, size, options, 2.0);
          }
        }
      }
    }
  }
}

TEST_CASE("flat, peaked and huge logits") {
  for (const Loops& loops : AllLoops()) {
    for (const Divergence divergence : kAll) {
      for (const double deviation : {0.0, 1e-3, 30.0, 1e4}) {
        CheckRow(loops, 3001,
                 {.vocabulary = 3001,
                  .divergence = divergence,
                  .beta = 0.5f,
                  .temperature = 2,
                  .alpha = 0.5f,
                  .student = {},
                  .teacher = {}},
                 deviation);
      }
    }
  }
}

// Where student and teacher are all but the same, what is left of the terms is small beside their rounding.
TEST_CASE("a small divergence is as exact as a large one") {
  constexpr int64_t kSize = 32000;
  for (const Loops& loops : AllLoops()) {
    for (const double deviation : {0.3, 0.05, 0.01}) {
      for (const float offset : {0.0f, 10.0f, 1000.0f}) {
        std::vector<float> teacher = Random(kSize, 2, 1);
        const std::vector<float> noise = Random(kSize, deviation, 2);
        std::vector<float> student = teacher;
        for (size_t i = 0; i < student.size(); ++i) student[i] += noise[i] + offset;
        for (const Divergence divergence :
             {Divergence::kForwardKl, Divergence::kReverseKl, Divergence::kJensenShannon}) {
          const SweepOptions options{.vocabulary = kSize,
                                     .divergence = divergence,
                                     .beta = 0.5f,
                                     .temperature = 2,
                                     .alpha = 1,
                                     .student = {},
                                     .teacher = {}};
          const Expected expected = Compute(student, teacher, 3, options);
          std::vector<float> in_place = student;
          const SweepSums sums = loops.row({in_place.data()}, {teacher.data()}, 3, options);
          double worst = 0, largest = 0;
          for (size_t i = 0; i < student.size(); ++i) {
            worst = std::max(worst, std::abs(in_place[i] - expected.gradient[i]));
            largest = std::max(largest, std::abs(expected.gradient[i]));
          }
          INFO(loops.name << ", deviation " << deviation << ", offset " << offset << ", divergence "
                          << static_cast<int>(divergence) << ": " << expected.divergence << ", gradient " << largest);
          CHECK(sums.divergence == Approx(expected.divergence).epsilon(1e-4).margin(1e-7));
          CHECK(worst / largest < 1e-3);
        }
      }
    }
  }
}

TEST_CASE("a row that begins with words that cannot come has the cross-entropy of the others") {
  constexpr size_t kSize = 2500;
  for (const Loops& loops : AllLoops()) {
    for (const size_t impossible : {size_t{8}, size_t{1024}, size_t{2400}}) {
      std::vector<float> student = Random(kSize, 2, 1);
      std::fill(student.begin(), student.begin() + static_cast<int64_t>(impossible), -INFINITY);
      const SweepOptions options{.vocabulary = kSize, .student = {}, .teacher = {}};
      const Expected expected = Compute(student, student, kSize - 1, options);
      const SweepSums sums = loops.row({student.data()}, {}, kSize - 1, options);
      INFO(loops.name << ", " << impossible << " words");
      CHECK(sums.ce == Approx(expected.ce).epsilon(1e-6));
      CHECK(Error(student, expected.gradient) < 1e-5);
    }
  }
}

TEST_CASE("bias, scale and softcap") {
  const std::vector<float> bias = Random(1500, 1, 3), other = Random(1500, 1, 4);
  for (const Loops& loops : AllLoops()) {
    for (const Divergence divergence : kAll) {
      for (const float softcap : {0.0f, 3.0f}) {
        CheckRow(loops, 1500,
                 {.vocabulary = 1500,
                  .divergence = divergence,
                  .beta = 0.5f,
                  .temperature = 2,
                  .alpha = 0.5f,
                  .student = {.bias = bias.data(), .scale = 0.5f, .softcap = softcap},
                  .teacher = {.bias = other.data(), .scale = -1.25f, .softcap = 2 * softcap}},
                 2.0);
      }
    }
  }
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

TEST_CASE("without a gradient the student's products stay") {
  std::vector<float> student = Random(50, 2, 1), teacher = Random(50, 2, 2);
  const std::vector<float> before = student;
  SweepOptions options{.vocabulary = 50,
                       .divergence = Divergence::kForwardKl,
                       .temperature = 2,
                       .alpha = 0.5f,
                       .wants_gradient = false,
                       .student = {},
                       .teacher = {}};
  const SweepSums without = SweepRow({student.data()}, {teacher.data()}, 3, options);
  CHECK(student == before);
  options.wants_gradient = true;
  const SweepSums with = SweepRow({student.data()}, {teacher.data()}, 3, options);
  CHECK(with.divergence == without.divergence);
  CHECK(with.ce == without.ce);
}

TEST_CASE("NaN anywhere in a row reaches the sums, whatever its bits") {
  uint32_t bits = 0x7fc00001;  // a payload that integer arithmetic on exponents could turn into a number
  float odd;
  std::memcpy(&odd, &bits, sizeof(odd));
  for (const Loops& loops : AllLoops()) {
    for (const Divergence divergence : kAll) {
      for (const size_t place : {size_t{0}, size_t{13}, size_t{1050}}) {
        std::vector<float> student = Random(1051, 1, 1), teacher = Random(1051, 1, 2);
        student[place] = odd;
        const SweepOptions options{.vocabulary = 1051,
                                   .divergence = divergence,
                                   .beta = 0.5f,
                                   .temperature = 2,
                                   .alpha = 0.5f,
                                   .student = {},
                                   .teacher = {}};
        const SweepSums sums = loops.row({student.data()}, {teacher.data()}, 5, options);
        CHECK(std::isnan(sums.ce));
        if (divergence != Divergence::kNone) CHECK(std::isnan(sums.divergence));
      }
    }
  }
}

}  // namespace
}  // namespace distill
