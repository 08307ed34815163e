#include "libdistill/loss/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
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
  std::vector<double> undecided;  // how far rounding may move each
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

// Of a divergence: its value, and T times its derivative with respect to the student's logits.
struct Differed {
  explicit Differed(size_t size) : derivative(size), undecided(size) {}
  double value = 0;
  std::vector<double> derivative;
  std::vector<double> undecided;  // of total variation, where rounding decides which of p and q is larger
};

// By g = d / d q_v of the divergence, T d / d z_v = q_v (g_v - sum of q g).
void ThroughSoftmax(const std::vector<double>& log_q, const std::vector<double>& g, Differed& differed) {
  double row_sum = 0;
  for (size_t v = 0; v < g.size(); ++v) row_sum += std::exp(log_q[v]) * g[v];
  for (size_t v = 0; v < g.size(); ++v) differed.derivative[v] = std::exp(log_q[v]) * (g[v] - row_sum);
}

// KL(a, m) with m = share a + (1 - share) b, and its derivative with respect to a, or else to b.
Differed KlToMixture(const std::vector<double>& log_a, const std::vector<double>& log_b, double share, bool of_a) {
  Differed differed(log_a.size());
  std::vector<double> g(log_a.size());
  for (size_t v = 0; v < log_a.size(); ++v) {
    const double log_m = share == 0 ? log_b[v] : LogAdd(std::log(share) + log_a[v], std::log1p(-share) + log_b[v]);
    const double ratio = log_a[v] - log_m, a = std::exp(log_a[v]);
    differed.value += a * ratio;
    g[v] = of_a ? ratio - share * std::exp(ratio) : -(1 - share) * std::exp(ratio);
  }
  ThroughSoftmax(of_a ? log_a : log_b, g, differed);
  return differed;
}

Differed JensenShannon(const std::vector<double>& log_p, const std::vector<double>& log_q, double beta) {
  Differed differed(log_p.size());
  const Differed of_p = KlToMixture(log_p, log_q, beta, false), of_q = KlToMixture(log_q, log_p, 1 - beta, true);
  differed.value = beta * of_p.value + (1 - beta) * of_q.value;
  for (size_t v = 0; v < log_p.size(); ++v) {
    differed.derivative[v] = beta * of_p.derivative[v] + (1 - beta) * of_q.derivative[v];
  }
  return differed;
}

// `tail`: the probability of what a teacher of top-k values does not name, which lies at minus infinity.
Differed TopKKl(const std::vector<double>& logits, std::vector<double> log_p, const std::vector<double>& log_q,
                const SweepOptions& o, double tail) {
  std::vector<double> sorted = logits;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const double least = sorted[std::min(static_cast<size_t>(o.top_k), sorted.size()) - 1];
  const auto is_rest = [&](size_t v) { return logits[v] < least || (tail > 0 && logits[v] == -INFINITY); };
  double rest_p = tail, rest_q = 0;
  for (double& log : log_p) log += std::log1p(-tail);
  for (size_t v = 0; v < logits.size(); ++v) {
    if (!is_rest(v)) continue;
    rest_p += std::exp(log_p[v]);
    rest_q += std::exp(log_q[v]);
  }
  Differed differed(logits.size());
  if (rest_p > 0) differed.value = rest_p * std::log(rest_p / rest_q);
  for (size_t v = 0; v < logits.size(); ++v) {
    const double p = std::exp(log_p[v]), q = std::exp(log_q[v]);
    if (!is_rest(v)) differed.value += p * (log_p[v] - log_q[v]);
    differed.derivative[v] = is_rest(v) ? q * (1 - rest_p / rest_q) : q - p;
  }
  return differed;
}

Differed TotalVariation(const std::vector<double>& log_p, const std::vector<double>& log_q) {
  Differed differed(log_p.size());
  std::vector<double> g(log_p.size());
  for (size_t v = 0; v < log_p.size(); ++v) {
    const double difference = std::exp(log_q[v]) - std::exp(log_p[v]);
    differed.value += 0.5 * std::abs(difference);
    g[v] = difference > 0 ? 0.5 : difference < 0 ? -0.5 : 0;
    if (std::abs(log_q[v] - log_p[v]) < 3e-5) differed.undecided[v] = std::exp(log_q[v]);
  }
  ThroughSoftmax(log_q, g, differed);
  return differed;
}

Differed Mse(const std::vector<double>& z, const std::vector<double>& t, double temperature) {
  Differed differed(z.size());
  for (size_t v = 0; v < z.size(); ++v) {
    const double difference = (z[v] - t[v]) / temperature, size = static_cast<double>(z.size());
    differed.value += difference * difference / size;
    differed.derivative[v] = 2 * difference / size;
  }
  return differed;
}

Differed Differ(const std::vector<double>& z, const std::vector<double>& t, const SweepOptions& o, double tail) {
  const std::vector<double> q = LogSoftmax(z, o.temperature), p = LogSoftmax(t, o.temperature);
  switch (o.divergence) {
    case Divergence::kForwardKl:
      return KlToMixture(p, q, 0, false);
    case Divergence::kReverseKl:
      return KlToMixture(q, p, 0, true);
    case Divergence::kJensenShannon:
      return JensenShannon(p, q, o.beta);
    case Divergence::kTopKKl:
      return TopKKl(t, p, q, o, tail);
    case Divergence::kSkewedKl:
      return KlToMixture(p, q, o.skew, false);
    case Divergence::kSkewedReverseKl:
      return KlToMixture(q, p, o.skew, true);
    case Divergence::kTotalVariation:
      return TotalVariation(p, q);
    case Divergence::kMse:
      return Mse(z, t, o.temperature);
    case Divergence::kNone:
      break;
  }
  return Differed(z.size());
}

// In float64, straight from the formulas of docs/losses.md.
Expected Compute(const std::vector<float>& student, const std::vector<float>& teacher, size_t label,
                 const SweepOptions& o, double tail = 0) {
  const std::vector<double> z = Logits(student, o.student), log_s = LogSoftmax(z, 1);
  const Differed differed = Differ(z, Logits(teacher, o.teacher), o, tail);
  Expected expected{
      .divergence = differed.value, .ce = -log_s[label], .gradient = std::vector<double>(z.size()), .undecided = {}};
  for (size_t v = 0; v < z.size(); ++v) {
    expected.undecided.push_back(o.alpha * o.temperature * differed.undecided[v]);
    double gradient = o.alpha * o.temperature * differed.derivative[v] +
                      (1.0 - o.alpha) * (std::exp(log_s[v]) - (v == label ? 1 : 0));
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

// The greatest difference of gradients, over the greatest of them, or over `least` where all are smaller.
double Error(const std::vector<float>& actual, const Expected& expected, double least = 0.01) {
  double worst = 0, largest = least;
  for (size_t i = 0; i < actual.size(); ++i) {
    worst = std::max(worst, std::abs(actual[i] - expected.gradient[i]) - expected.undecided[i]);
    largest = std::max(largest, std::abs(expected.gradient[i]));
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

constexpr Divergence kOfATeacher[] = {Divergence::kForwardKl,      Divergence::kReverseKl, Divergence::kJensenShannon,
                                      Divergence::kTopKKl,         Divergence::kSkewedKl,  Divergence::kSkewedReverseKl,
                                      Divergence::kTotalVariation, Divergence::kMse};
constexpr Divergence kAll[] = {
    Divergence::kNone,   Divergence::kForwardKl, Divergence::kReverseKl,       Divergence::kJensenShannon,
    Divergence::kTopKKl, Divergence::kSkewedKl,  Divergence::kSkewedReverseKl, Divergence::kTotalVariation,
    Divergence::kMse};

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
  CHECK(Error(in_place, expected) < 1e-5);
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
                                       .skew = 0.1f,
                                       .top_k = 20,
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
                  .skew = 0.1f,
                  .top_k = 20,
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
        for (const Divergence divergence : kOfATeacher) {
          const SweepOptions options{.vocabulary = kSize,
                                     .divergence = divergence,
                                     .beta = 0.5f,
                                     .skew = 0.1f,
                                     .top_k = 20,
                                     .temperature = 2,
                                     .alpha = 1,
                                     .student = {},
                                     .teacher = {}};
          const Expected expected = Compute(student, teacher, 3, options);
          std::vector<float> in_place = student;
          const SweepSums sums = loops.row({in_place.data()}, {teacher.data()}, 3, options);
          INFO(loops.name << ", deviation " << deviation << ", offset " << offset << ", divergence "
                          << static_cast<int>(divergence) << ": " << expected.divergence);
          CHECK(sums.divergence == Approx(expected.divergence).epsilon(1e-4).margin(1e-7));
          CHECK(Error(in_place, expected, 0) < 1e-3);
        }
      }
    }
  }
}

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
      CHECK(Error(student, expected) < 1e-5);
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
                  .skew = 0.1f,
                  .top_k = 20,
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
                                   .skew = 0.1f,
                                   .top_k = 20,
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
