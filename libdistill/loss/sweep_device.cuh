// The arithmetic of the sweep on a GPU, one thread's part of a row at a time; compiled for the host as well, where a
// test compares it with the CPU's loops. The formulas and their names are those of sweep_loops.cc, in logarithms to
// base 2.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "libdistill/loss/sweep_cuda.h"

namespace distill {

constexpr float kSweepLog2E = 1.44269504088896341f;
constexpr double kSweepLn2 = 0.69314718055994530942;

inline __host__ __device__ float LoadProduct(const RowOfProducts& row, int64_t i) {
  if (row.dtype == DType::kFloat16) return __half2float(static_cast<const __half*>(row.values)[i]);
  if (row.dtype == DType::kBFloat16) return __bfloat162float(static_cast<const __nv_bfloat16*>(row.values)[i]);
  return static_cast<const float*>(row.values)[i];
}

inline __host__ __device__ void StoreProduct(const RowOfProducts& row, int64_t i, float value) {
  if (row.dtype == DType::kFloat16) {
    static_cast<__half*>(row.values)[i] = __float2half_rn(value);
  } else if (row.dtype == DType::kBFloat16) {
    static_cast<__nv_bfloat16*>(row.values)[i] = __float2bfloat16_rn(value);
  } else {
    static_cast<float*>(row.values)[i] = value;
  }
}

inline __host__ __device__ float LogitOf(const RowOfProducts& row, const HeadOutput& head, int64_t i) {
  float logit = LoadProduct(row, i);
  if (head.bias != nullptr) logit += head.bias[i];
  logit *= head.scale;
  return head.softcap > 0 ? head.softcap * tanhf(logit / head.softcap) : logit;
}

// What the first pass finds, over a thread's part of the row, a block's, or the whole row.
struct DeviceNormalisers {
  float max_s = -INFINITY, max_t = -INFINITY;
  double s = 0, s1 = 0, t = 0, reverse = 0;

  __host__ __device__ void Merge(const DeviceNormalisers& other, float rate) {
    Raise(other.max_s > max_s ? other.max_s : max_s, other.max_t > max_t ? other.max_t : max_t, rate);
    DeviceNormalisers scaled = other;
    scaled.Raise(max_s, max_t, rate);
    s += scaled.s;
    s1 += scaled.s1;
    t += scaled.t;
    reverse += scaled.reverse;
  }

  __host__ __device__ void Raise(float new_max_s, float new_max_t, float rate) {
    if (s > 0) {
      const float by_s = new_max_s > max_s ? new_max_s - max_s : 0, by_t = new_max_t > max_t ? new_max_t - max_t : 0;
      reverse -= s * (by_s - by_t) * rate;
    }
    if (new_max_s > max_s) {
      const float by = max_s - new_max_s, factor = exp2f(by * rate);
      s *= factor;
      reverse *= factor;
      s1 *= exp2f(by * kSweepLog2E);
      max_s = new_max_s;
    }
    if (new_max_t > max_t) {
      t *= exp2f((max_t - new_max_t) * rate);
      max_t = new_max_t;
    }
  }
};

// A row, from the view of thread `first` of `threads`, which takes every threads-th logit.
class DeviceSweep {
 public:
  __host__ __device__ DeviceSweep(const GpuSweep& sweep, int64_t row, int first, int threads)
      : student_(RowAt(sweep.student, row, sweep.options.vocabulary)),
        teacher_(RowAt(sweep.teacher, row, sweep.options.vocabulary)),
        label_(sweep.labels[row]),
        options_(sweep.options),
        has_teacher_(sweep.options.divergence != Divergence::kNone),
        first_(first),
        threads_(threads) {}

  __host__ __device__ float rate() const { return has_teacher_ ? kSweepLog2E / options_.temperature : kSweepLog2E; }
  __host__ __device__ bool NeedsMixture() const {
    return options_.divergence == Divergence::kJensenShannon && options_.wants_gradient;
  }

  // Pass 1: this thread's part, to be merged with the others'.
  __host__ __device__ DeviceNormalisers Normalise() const {
    DeviceNormalisers mine;
    for (int64_t i = first_; i < options_.vocabulary; i += threads_) {
      const float x = LogitOf(student_, options_.student, i);
      const float y = has_teacher_ ? LogitOf(teacher_, options_.teacher, i) : 0;
      mine.Raise(x, y, rate());
      const float above = x - mine.max_s, e = PowerOf(above * rate(), x);
      mine.s += e;
      mine.s1 += PowerOf(above * kSweepLog2E, x);
      if (!has_teacher_) continue;
      mine.t += PowerOf((y - mine.max_t) * rate(), y);
      if (options_.divergence == Divergence::kReverseKl) mine.reverse += e * ((above - (y - mine.max_t)) * rate());
    }
    return mine;
  }

  __host__ __device__ void SetNormalisers(const DeviceNormalisers& all) {
    sums_ = all;
    log_s_ = static_cast<float>(log2(all.s));
    log_s1_ = static_cast<float>(log2(all.s1));
    log_t_ = static_cast<float>(log2(all.t));
    if (options_.divergence != Divergence::kReverseKl) return;
    row_sum_ = static_cast<float>(all.reverse / all.s - log_s_ + log_t_);
  }

  __host__ __device__ double CrossEntropy() const {
    if (label_ < 0) return 0;
    if (!IsWord()) return NAN;  // nobody may wait here for an error
    return log(sums_.s1) - (static_cast<double>(LogitOf(student_, options_.student, label_)) - sums_.max_s);
  }

  // Jensen-Shannon's extra pass: this thread's part of KL(q || m).
  __host__ __device__ double StudentToMixture() const {
    double sum = 0;
    for (int64_t i = first_; i < options_.vocabulary; i += threads_) {
      const float log_q = LogQ(i);
      sum += exp2f(log_q) * -MixtureOverStudent(TeacherOverStudent(LogP(i), log_q));
    }
    return sum;
  }
  __host__ __device__ void SetMixture(double of_row) { row_sum_ = static_cast<float>(of_row); }

  // Pass 2: the gradient in place, and this thread's part of the divergence's terms.
  __host__ __device__ double Finish() const {
    double divergence = 0;
    const float of_ce = label_ < 0 ? 0 : IsWord() ? 1 - options_.alpha : NAN;
    for (int64_t i = first_; i < options_.vocabulary; i += threads_) {
      const float x = LogitOf(student_, options_.student, i), log_q = LogQOf(x);
      float gradient = of_ce * (exp2f((x - sums_.max_s) * kSweepLog2E - log_s1_) - (i == label_ ? 1 : 0));
      if (has_teacher_) gradient += options_.alpha * options_.temperature * Differ(log_q, LogP(i), divergence);
      if (!options_.wants_gradient) continue;
      const HeadOutput& head = options_.student;
      if (head.softcap > 0) gradient *= 1 - (x / head.softcap) * (x / head.softcap);
      StoreProduct(student_, i, gradient * (head.scale * options_.gradient_scale));
    }
    return divergence;
  }

  // Out of the sum of all threads' terms (sweep_loops.cc, WithoutRounding).
  __host__ __device__ double DivergenceOf(double terms) const {
    const double d = log_s_ - log2(sums_.s), e = log_t_ - log2(sums_.t);
    if (options_.divergence == Divergence::kForwardKl) terms = terms * exp2(e) - (d - e);
    if (options_.divergence == Divergence::kReverseKl) terms = terms * exp2(d) + (d - e);
    return terms * kSweepLn2;
  }

 private:
  static __host__ __device__ RowOfProducts RowAt(const RowOfProducts& rows, int64_t row, int64_t vocabulary) {
    const int64_t element_bytes = rows.dtype == DType::kFloat32 ? 4 : 2;
    return {static_cast<char*>(rows.values) + row * vocabulary * element_bytes, rows.dtype};
  }
  __host__ __device__ bool IsWord() const { return label_ < options_.vocabulary; }

  // 2^power; 0 for a logit of minus infinity, also before any larger one was seen.
  static __host__ __device__ float PowerOf(float power, float logit) { return logit == -INFINITY ? 0 : exp2f(power); }

  __host__ __device__ float LogQOf(float x) const { return (x - sums_.max_s) * rate() - log_s_; }
  __host__ __device__ float LogQ(int64_t i) const { return LogQOf(LogitOf(student_, options_.student, i)); }
  __host__ __device__ float LogP(int64_t i) const {
    return (LogitOf(teacher_, options_.teacher, i) - sums_.max_t) * rate() - log_t_;
  }
  static __host__ __device__ float TeacherOverStudent(float log_p, float log_q) {
    const float ratio = log_p - log_q;
    return ratio > 126 ? 126 : ratio;
  }
  __host__ __device__ float MixtureOverStudent(float log_ratio) const {
    return log2f(options_.beta * exp2f(log_ratio) + (1 - options_.beta));
  }

  __host__ __device__ float Differ(float log_q, float log_p, double& divergence) const {
    const float q = exp2f(log_q), p = exp2f(log_p);
    if (options_.divergence == Divergence::kForwardKl) {
      divergence += p * (log_p - log_q);
      return q - p;
    }
    if (options_.divergence == Divergence::kReverseKl) {
      divergence += q * (log_q - log_p);
      return static_cast<float>(kSweepLn2) * q * ((log_q - log_p) - row_sum_);
    }
    const float beta = options_.beta, ratio = TeacherOverStudent(log_p, log_q);
    const float of_student = -MixtureOverStudent(ratio);
    divergence += beta * (p * (ratio + of_student)) + (1 - beta) * (q * of_student);
    return static_cast<float>(kSweepLn2) * (1 - beta) * (q * (of_student - row_sum_));
  }

  const RowOfProducts student_, teacher_;
  const int64_t label_;
  const SweepOptions options_;
  const bool has_teacher_;
  const int first_, threads_;
  DeviceNormalisers sums_;
  float log_s_ = 0, log_s1_ = 0, log_t_ = 0;
  float row_sum_ = 0;
};

}  // namespace distill
