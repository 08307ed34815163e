// A row's sweep in float32: every divergence, at every length and size of logits.
#include <algorithm>
#include <cmath>
#include <cstring>
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
