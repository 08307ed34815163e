// The GPU's arithmetic, run on the CPU; tests/loss/loss_test.cc runs the kernel itself where there is a GPU.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "libdistill/loss/sweep.h"
#include "tests/loss/sweep_as_threads.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

std::vector<float> Random(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

// Three rows, the last without a label; both models' products of `dtype`, which has 2 or 4 bytes.
struct Rows {
  std::vector<float> student, teacher;
  std::vector<uint16_t> narrow_student, narrow_teacher;
  std::vector<int64_t> labels;
  GpuSweep sweep;

  Rows(int64_t vocabulary, DType dtype, const SweepOptions& options)
      : student(Random(static_cast<size_t>(3 * vocabulary), 1)),
        teacher(Random(static_cast<size_t>(3 * vocabulary), 2)),
        labels({vocabulary / 2, 0, -1}) {
    sweep = {.student = {student.data(), dtype},
             .teacher = {teacher.data(), dtype},
             .student_stride = vocabulary,
             .teacher_stride = vocabulary,
             .gradient = dtype,
             .labels = labels.data(),
             .tokens = 3,
             .options = options};
    if (dtype == DType::kFloat32) return;
    narrow_student = dtype == DType::kFloat16 ? Halfs(student) : Upper(student);
    narrow_teacher = dtype == DType::kFloat16 ? Halfs(teacher) : Upper(teacher);
    sweep.student.values = narrow_student.data();
    sweep.teacher.values = narrow_teacher.data();
  }

  // The upper halves of float32 are bfloat16.
  static std::vector<uint16_t> Upper(const std::vector<float>& values) {
    std::vector<uint16_t> upper;
    for (const float value : values) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      upper.push_back(static_cast<uint16_t>(bits >> 16));
    }
    return upper;
  }
  static std::vector<uint16_t> Halfs(const std::vector<float>& values) {
    std::vector<uint16_t> halfs;
    for (const float value : values) {
      const auto half = static_cast<_Float16>(value);
      std::memcpy(&halfs.emplace_back(), &half, sizeof(half));
    }
    return halfs;
  }
  RowOfProducts At(const RowOfProducts& rows, int64_t row) const {
    return {static_cast<char*>(rows.values) + row * sweep.options.vocabulary * SizeOf(rows.dtype), rows.dtype};
  }
  double Gradient(int64_t i) const {
    if (narrow_student.empty()) return student[static_cast<size_t>(i)];
    if (sweep.student.dtype == DType::kFloat16) {
      _Float16 half;
      std::memcpy(&half, &narrow_student[static_cast<size_t>(i)], sizeof(half));
      return half;
    }
    const uint32_t bits = static_cast<uint32_t>(narrow_student[static_cast<size_t>(i)]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
};

TEST_CASE("a GPU's threads give what the CPU's loops give") {
  const std::vector<float> bias = Random(5003, 3), other_bias = Random(5003, 4);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const double tolerance = dtype == DType::kFloat32 ? 1e-5 : dtype == DType::kFloat16 ? 1e-3 : 8e-3;
    for (const int64_t vocabulary : {1, 2, 31, 512, 513, 5003}) {
      for (const Divergence divergence :
           {Divergence::kNone, Divergence::kForwardKl, Divergence::kReverseKl, Divergence::kJensenShannon,
            Divergence::kTopKKl, Divergence::kSkewedKl, Divergence::kSkewedReverseKl, Divergence::kTotalVariation,
            Divergence::kMse}) {
        for (const float softcap : {0.0f, 4.0f}) {
          SweepOptions options;
          options.vocabulary = vocabulary;
          options.divergence = divergence;
          options.beta = 0.3f;
          options.skew = 0.1f;
          options.top_k = 20;
          options.temperature = 2;
          options.alpha = divergence == Divergence::kNone ? 0.0f : 0.6f;
          options.gradient_scale = dtype == DType::kFloat16 ? 64.0f : 1.0f;
          if (softcap > 0) {
            options.student = {bias.data(), 0.5f, softcap};
            options.teacher = {other_bias.data(), 1.5f, softcap};
          }
          Rows expected(vocabulary, dtype, options), actual(vocabulary, dtype, options);
          for (int64_t row = 0; row < 3; ++row) {
            INFO(NameOf(dtype) << ", " << vocabulary << " words, divergence " << static_cast<int>(divergence)
                               << ", softcap " << softcap << ", row " << row);
            const SweepSums e =
                SweepRow(expected.At(expected.sweep.student, row), expected.At(expected.sweep.teacher, row),
                         expected.labels[static_cast<size_t>(row)], options);
            const SweepSums a = testing::SweepRowAsThreads(actual.sweep, row, 64);
            CHECK(a.divergence == Approx(e.divergence).epsilon(1e-5).margin(1e-6));
            CHECK(a.ce == Approx(e.ce).epsilon(1e-5).margin(1e-6));
            double worst = 0, largest = 0.01;
            for (int64_t i = row * vocabulary; i < (row + 1) * vocabulary; ++i) {
              worst = std::max(worst, std::abs(actual.Gradient(i) - expected.Gradient(i)));
              largest = std::max(largest, std::abs(expected.Gradient(i)));
            }
            CHECK(worst / largest < tolerance);
          }
        }
      }
    }
  }
}

// Rows of float32 products that are further apart than the vocabulary, and what lies behind it.
struct SparseRows {
  static constexpr float kBehind = -7;
  int64_t stride;
  std::vector<float> values;

  SparseRows(const std::vector<float>& rows, int64_t vocabulary) : stride(vocabulary + 5) {
    values.assign(static_cast<size_t>(3 * stride), kBehind);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      values[static_cast<size_t>(at / vocabulary * stride + at % vocabulary)] = rows[i];
    }
  }
  // What a narrow gradient has at an index of the row.
  double NarrowGradient(int64_t row, int64_t i, DType dtype) const {
    const char* const at = reinterpret_cast<const char*>(values.data() + row * stride) + 2 * i;
    if (dtype == DType::kFloat16) {
      _Float16 half;
      std::memcpy(&half, at, sizeof(half));
      return half;
    }
    uint16_t upper;
    std::memcpy(&upper, at, sizeof(upper));
    const uint32_t bits = static_cast<uint32_t>(upper) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
};

TEST_CASE("of float32 products a narrow gradient takes the front of each row, and nothing behind it") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const double rounding = dtype == DType::kBFloat16 ? 1.0 / 256 : 1.0 / 2048;
    for (const int64_t vocabulary : {1, 2, 63, 64, 255, 256, 257, 5003}) {
      for (const Divergence divergence : {Divergence::kNone, Divergence::kForwardKl, Divergence::kJensenShannon}) {
        SweepOptions options;
        options.vocabulary = vocabulary;
        options.divergence = divergence;
        options.beta = 0.3f;
        options.temperature = 2;
        options.alpha = divergence == Divergence::kNone ? 0.0f : 0.6f;
        options.gradient_scale = 64;
        Rows expected(vocabulary, DType::kFloat32, options);
        SparseRows student(expected.student, vocabulary), teacher(expected.teacher, vocabulary);
        GpuSweep sweep = expected.sweep;
        sweep.student.values = student.values.data();
        sweep.teacher.values = teacher.values.data();
        sweep.student_stride = student.stride;
        sweep.teacher_stride = teacher.stride;
        sweep.gradient = dtype;
        for (int64_t row = 0; row < 3; ++row) {
          INFO(NameOf(dtype) << ", " << vocabulary << " words, divergence " << static_cast<int>(divergence) << ", row "
                             << row);
          const SweepSums e = testing::SweepRowAsThreads(expected.sweep, row, 64);
          const SweepSums a = testing::SweepRowAsThreads(sweep, row, 64);
          CHECK(a.divergence == e.divergence);
          CHECK(a.ce == e.ce);
          for (int64_t i = 0; i < vocabulary; ++i) {
            const double gradient = expected.Gradient(row * vocabulary + i);
            REQUIRE(std::abs(student.NarrowGradient(row, i, dtype) - gradient) <= rounding * std::abs(gradient) + 1e-7);
          }
          for (int64_t i = vocabulary; i < student.stride; ++i) {
            REQUIRE(student.values[static_cast<size_t>(row * student.stride + i)] == SparseRows::kBehind);
          }
        }
      }
    }
  }
}

TEST_CASE("a GPU's threads find the top k among ties, and count the tail of top-k values in") {
  constexpr int64_t kVocabulary = 1000;
  for (const int64_t top_k : {int64_t{1}, int64_t{7}, int64_t{64}, kMostTopK}) {
    for (const bool has_tail : {false, true}) {
      SweepOptions options;
      options.vocabulary = kVocabulary;
      options.divergence = Divergence::kTopKKl;
      options.top_k = top_k;
      options.alpha = 0.6f;
      Rows expected(kVocabulary, DType::kFloat32, options), actual(kVocabulary, DType::kFloat32, options);
      const float tails[] = {-1.0f, -0.01f, -20.0f};
      for (Rows* rows : {&expected, &actual}) {
        for (float& logit : rows->teacher) logit = std::round(logit * 4) / 4 - 3;
        for (size_t i = 0; has_tail && i < rows->teacher.size(); ++i) {
          if (i % 40 != 3) rows->teacher[i] = 5 - static_cast<float>(kUnnamed);
        }
        if (has_tail) rows->sweep.teacher.tail = tails;
      }
      for (int64_t row = 0; row < 3; ++row) {
        RowOfProducts teacher = expected.At(expected.sweep.teacher, row);
        if (has_tail) teacher.tail = tails + row;
        const SweepSums e = SweepRow(expected.At(expected.sweep.student, row), teacher,
                                     expected.labels[static_cast<size_t>(row)], options);
        const SweepSums a = testing::SweepRowAsThreads(actual.sweep, row, 64);
        INFO(top_k << ", a tail: " << has_tail << ", row " << row);
        CHECK(a.divergence == Approx(e.divergence).epsilon(1e-5).margin(1e-6));
        for (int64_t i = row * kVocabulary; i < (row + 1) * kVocabulary; ++i) {
          REQUIRE(actual.Gradient(i) == Approx(expected.Gradient(i)).epsilon(1e-4).margin(1e-6));
        }
      }
    }
  }
}

// Of float32 products: cross-entropy alone, by the kernel for all sweeps, and the usual divergence, by its own.
SweepOptions OptionsOf40Words(Divergence divergence) {
  SweepOptions options;
  options.vocabulary = 40;
  options.divergence = divergence;
  options.alpha = divergence == Divergence::kNone ? 0.0f : 0.5f;
  return options;
}
constexpr Divergence kBothKernels[] = {Divergence::kNone, Divergence::kForwardKl};

TEST_CASE("a label beyond the vocabulary makes loss and gradient no number") {
  for (const Divergence divergence : kBothKernels) {
    Rows rows(40, DType::kFloat32, OptionsOf40Words(divergence));
    rows.labels = {40, 39, 1000};
    REQUIRE(testing::IsUsualSweep(rows.sweep) == (divergence == Divergence::kForwardKl));
    for (const int64_t row : {0, 2}) CHECK(std::isnan(testing::SweepRowAsThreads(rows.sweep, row, 16).ce));
    CHECK(std::isfinite(testing::SweepRowAsThreads(rows.sweep, 1, 16).ce));
    for (const int64_t i : {0, 39, 80, 119}) CHECK(std::isnan(rows.Gradient(i)));
    for (const int64_t i : {40, 79}) CHECK(std::isfinite(rows.Gradient(i)));
  }
}

TEST_CASE("logits of minus infinity are words that cannot come") {
  for (const Divergence divergence : kBothKernels) {
    const SweepOptions options = OptionsOf40Words(divergence);
    Rows rows(40, DType::kFloat32, options);
    rows.labels[0] = 39;
    for (size_t i = 0; i < 8; ++i) rows.student[i] = -INFINITY;
    const std::vector<float> logits(rows.student.begin(), rows.student.begin() + 40);
    double sum = 0, of_teacher = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    for (size_t i = 0; i < 40; ++i) of_teacher += std::exp(static_cast<double>(rows.teacher[i]));
    const SweepSums sums = testing::SweepRowAsThreads(rows.sweep, 0, 16);
    CHECK(sums.ce == Approx(std::log(sum) - logits[39]).epsilon(1e-5));
    // The teacher's probability of such a word is infinitely far from the student's, and pulls at it nevertheless.
    CHECK(std::isinf(sums.divergence) == (divergence == Divergence::kForwardKl));
    for (size_t i = 0; i < 8; ++i) {
      const double pulls = options.alpha * std::exp(static_cast<double>(rows.teacher[i])) / of_teacher;
      CHECK(rows.student[i] == Approx(-pulls).epsilon(1e-5));
    }
  }
}

TEST_CASE("a logit that is no number makes sums and gradient of its row so, and of no other") {
  for (const bool is_students : {true, false}) {
    Rows rows(40, DType::kFloat32, OptionsOf40Words(Divergence::kForwardKl));
    (is_students ? rows.student : rows.teacher)[40 + 17] = NAN;
    for (int64_t row = 0; row < 3; ++row) {
      INFO("the student's: " << is_students << ", row " << row);
      const SweepSums sums = testing::SweepRowAsThreads(rows.sweep, row, 16);
      CHECK(std::isnan(sums.divergence) == (row == 1));
      CHECK(std::isnan(sums.ce) == (row == 1 && is_students));
      for (int64_t i = 40 * row; i < 40 * (row + 1); ++i) REQUIRE(std::isnan(rows.Gradient(i)) == (row == 1));
    }
  }
}

TEST_CASE("the kernel for what is usual gives the bits of the one for all sweeps") {
  for (const int64_t vocabulary : {1, 2, 255, 257, 5003}) {
    for (const float alpha : {0.0f, 0.6f, 1.0f}) {
      SweepOptions options;
      options.vocabulary = vocabulary;
      options.divergence = Divergence::kForwardKl;
      options.temperature = 2;
      options.alpha = alpha;
      options.student.scale = 0.5f;
      options.gradient_scale = 64;
      Rows usual(vocabulary, DType::kFloat32, options), general(vocabulary, DType::kFloat32, options);
      REQUIRE(testing::IsUsualSweep(usual.sweep));
      for (int64_t row = 0; row < 3; ++row) {
        INFO(vocabulary << " words, alpha " << alpha << ", row " << row);
        const SweepSums u = testing::SweepRowAsThreads(usual.sweep, row, 64);
        const SweepSums g = testing::SweepRowAsThreads(general.sweep, row, 64, testing::SweepKernelKind::kGeneral);
        CHECK(u.divergence == g.divergence);
        CHECK(u.ce == g.ce);
      }
      CHECK(std::memcmp(usual.student.data(), general.student.data(), usual.student.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("usual is forward KL of float32 products that are the logits or a multiple of them") {
  const float bias[40] = {};
  const GpuSweep usual = Rows(40, DType::kFloat32, OptionsOf40Words(Divergence::kForwardKl)).sweep;
  const auto is_usual_with = [&](const auto& change) {
    GpuSweep sweep = usual;
    change(sweep);
    return testing::IsUsualSweep(sweep);
  };
  CHECK(is_usual_with([](GpuSweep&) {}));
  CHECK(is_usual_with([](GpuSweep& s) { s.options.student.scale = s.options.teacher.scale = 0.5f; }));
  CHECK(is_usual_with([](GpuSweep& s) { s.options.temperature = 3, s.options.alpha = 1; }));
  CHECK(is_usual_with([](GpuSweep& s) { s.gradient = DType::kBFloat16; }));
  CHECK_FALSE(is_usual_with([](GpuSweep& s) { s.options.divergence = Divergence::kReverseKl; }));
  CHECK_FALSE(is_usual_with([](GpuSweep& s) { s.options.divergence = Divergence::kNone; }));
  CHECK_FALSE(is_usual_with([](GpuSweep& s) { s.student.dtype = DType::kBFloat16; }));
  CHECK_FALSE(is_usual_with([](GpuSweep& s) { s.teacher.dtype = DType::kFloat16; }));
  CHECK_FALSE(is_usual_with([&](GpuSweep& s) { s.options.student.bias = bias; }));
  CHECK_FALSE(is_usual_with([&](GpuSweep& s) { s.options.teacher.bias = bias; }));
  CHECK_FALSE(is_usual_with([](GpuSweep& s) { s.options.student.softcap = 30; }));
  CHECK_FALSE(is_usual_with([](GpuSweep& s) { s.options.teacher.softcap = 30; }));
}

}  // namespace
}  // namespace distill
