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

inline __host__ __device__ float LogitOf(const HeadOutput& head, float product, int64_t i) {
  float logit = product;
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
    if (new_max_s <= max_s && new_max_t <= max_t) return;
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

// What a token's part of a divergence needs of its row (divergence_terms.h, AddToRow). Of the top k: what belongs to
// the rest of S and P.
struct DeviceRowSums {
  double first = 0, second = 0;
};

// Numbers in the order of the floats that they stand for, but for those that are none.
inline __host__ __device__ uint32_t OrderOf(float value) {
  union {
    float value;
    uint32_t bits;
  } both = {value};
  return both.bits >> 31 != 0 ? ~both.bits : both.bits | 0x80000000u;
}

// Finds the k-th largest logit bit by bit of its place in the order of floats, from the highest, by how many are at
// least as large:
//   while (!search.is_over()) search.Take(how many have an order of search.tried() or above);
// Thirty-two passes at most; it ends as soon as exactly k have, which it does once k and k + 1 are told apart.
class DeviceTopKSearch {
 public:
  __host__ __device__ explicit DeviceTopKSearch(int64_t k) : k_(static_cast<double>(k)) {}
  __host__ __device__ bool is_over() const { return bit_ < 0; }
  __host__ __device__ uint32_t tried() const { return found_ | (1u << bit_); }
  __host__ __device__ void Take(double at_least) {
    if (at_least >= k_) found_ = tried();
    bit_ = at_least == k_ ? -1 : bit_ - 1;
  }
  __host__ __device__ uint32_t found() const { return found_; }

 private:
  double k_;
  int bit_ = 31;
  uint32_t found_ = 0;
};

// What is most often wanted: KL(teacher || student) of float32 products that are the logits, or a multiple of them.
inline __host__ __device__ bool IsUsual(const GpuSweep& sweep) {
  const SweepOptions& options = sweep.options;
  return options.divergence == Divergence::kForwardKl && sweep.student.dtype == DType::kFloat32 &&
         sweep.teacher.dtype == DType::kFloat32 && options.student.bias == nullptr && options.teacher.bias == nullptr &&
         options.student.softcap <= 0 && options.teacher.softcap <= 0;
}

// A row, from the view of thread `first` of `threads`, which takes every threads-th logit. kIsUsual: of a sweep for
// which IsUsual is true, with the same results and without branches for others.
template <bool kIsUsual>
class DeviceSweep {
 public:
  __host__ __device__ DeviceSweep(const GpuSweep& sweep, int64_t row, int first, int threads)
      : student_(RowAt(sweep.student, row, sweep.student_stride)),
        teacher_(RowAt(sweep.teacher, row, sweep.teacher_stride)),
        gradient_{student_.values, sweep.gradient, nullptr},
        label_(sweep.labels[row]),
        options_(sweep.options),
        share_(kind() == Divergence::kSkewedKl          ? sweep.options.skew
               : kind() == Divergence::kSkewedReverseKl ? 1 - sweep.options.skew
                                                        : sweep.options.beta),
        first_(first),
        threads_(threads) {}

  __host__ __device__ float rate() const { return has_softmax() ? kSweepLog2E / options_.temperature : kSweepLog2E; }
  __host__ __device__ bool NeedsTopK() const { return kind() == Divergence::kTopKKl; }
  __host__ __device__ bool NeedsRow() const {
    return NeedsTopK() || kind() == Divergence::kSkewedKl || kind() == Divergence::kSkewedReverseKl ||
           kind() == Divergence::kTotalVariation || (kind() == Divergence::kJensenShannon && options_.wants_gradient);
  }

  __host__ __device__ DeviceTopKSearch TopKSearch() const { return DeviceTopKSearch(options_.top_k); }
  __host__ __device__ double CountAtLeast(uint32_t order) const {
    int64_t count = 0;
    for (int64_t i = first_; i < options_.vocabulary; i += threads_) {
      if (OrderOf(LogitOf(teacher_, options_.teacher, i)) >= order) ++count;
    }
    return static_cast<double>(count);
  }
  __host__ __device__ void SetTopK(const DeviceTopKSearch& search) { top_k_ = search.found(); }

  // Both passes take the row in steps: kAtOnce logits of each thread, whose loads are on their way together, those of
  // the next step while this one is computed. Both models' products of a step; minus infinity behind the row.
  static constexpr int kAtOnce = 4;
  struct Products {
    float student[kAtOnce], teacher[kAtOnce];
  };
  __host__ __device__ int64_t steps() const {
    const int64_t in_step = int64_t{kAtOnce} * threads_;
    return (options_.vocabulary + in_step - 1) / in_step;
  }
  __host__ __device__ void Load(int64_t step, Products& products) const {
    LoadOf(student_, step, products.student);
    if (has_teacher()) LoadOf(teacher_, step, products.teacher);
  }

  // Pass 1: this thread's part, to be merged with the others'.
  __host__ __device__ DeviceNormalisers Normalise() const {
    DeviceNormalisers mine;
    Products products, next;
    Load(0, products);
    for (int64_t step = 0; step < steps(); ++step) {
      Load(step + 1, next);
      AddStep(step, products, mine);
      products = next;
    }
    return mine;
  }

  __host__ __device__ void SetNormalisers(const DeviceNormalisers& all) {
    sums_ = all;
    log_s_ = static_cast<float>(log2(all.s));
    log_s1_ = static_cast<float>(log2(all.s1));
    log_t_ = static_cast<float>(log2(all.t));
    if (kind() != Divergence::kReverseKl) return;
    row_sum_ = static_cast<float>(all.reverse / all.s - log_s_ + log_t_);
  }

  __host__ __device__ double CrossEntropy() const {
    if (label_ < 0) return 0;
    if (!IsWord()) return NAN;  // nobody may wait here for an error
    return log(sums_.s1) - (static_cast<double>(LogitOf(student_, options_.student, label_)) - sums_.max_s);
  }

  // The extra pass of those that need it: this thread's part.
  __host__ __device__ DeviceRowSums SumRow() const {
    DeviceRowSums sums;
    for (int64_t i = first_; i < options_.vocabulary; i += threads_) {
      const float x = LogitOf(student_, options_.student, i), y = LogitOf(teacher_, options_.teacher, i);
      if (NeedsTopK()) {
        if (!IsRest(y)) continue;
        sums.first += PowerOf((x - sums_.max_s) * rate(), x) + 0x1p-126f;  // nothing only where there is no token
        sums.second += PowerOf((y - sums_.max_t) * rate(), y);
      } else {
        AddToRow(LogQOf(x), LogPOf(y), sums);
      }
    }
    return sums;
  }
  __host__ __device__ void SetRow(const DeviceRowSums& of_row) {
    if (NeedsTopK()) return SetRest(of_row);
    row_sum_ = static_cast<float>(of_row.first);
    second_ = of_row.second;
  }

  // Pass 2, step by step: the gradient, and this thread's part of the divergence's terms.
  //   row.Load(0, products);
  //   for (int64_t step = 0; step < row.steps(); ++step) {
  //     row.Load(step + 1, next);
  //     row.Differentiate(step, products, gradients, terms);
  //     if (row.narrows()) wait for all threads of the row;
  //     row.Put(step, gradients);
  //     products = next;
  //   }
  // A narrow gradient takes the front half of the float32 products, so what a thread writes lies where others have read
  // in this step or before, and where nobody reads later: element i of it covers half of product i / 2.
  __host__ __device__ bool narrows() const { return options_.wants_gradient && gradient_.dtype != student_.dtype; }
  __host__ __device__ void Differentiate(int64_t step, const Products& products, float (&gradients)[kAtOnce],
                                         double& terms) const {
    float of_step = 0;  // in float32: a conversion for each term would take longer than the term
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t i = PlaceIn(step, j);
      if (i < options_.vocabulary) gradients[j] = GradientAt(i, products.student[j], products.teacher[j], of_step);
    }
    terms += of_step;
  }
  __host__ __device__ void Put(int64_t step, const float (&gradients)[kAtOnce]) const {
    if (!options_.wants_gradient) return;
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t i = PlaceIn(step, j);
      if (i < options_.vocabulary) StoreProduct(gradient_, i, gradients[j]);
    }
  }

  // Out of the sum of all threads' terms (divergence_terms.h, Value).
  __host__ __device__ double DivergenceOf(double terms) const {
    const double d = log_s_ - log2(sums_.s), e = log_t_ - log2(sums_.t);
    switch (kind()) {
      case Divergence::kForwardKl:
        return kSweepLn2 * (terms * exp2(e) - (d - e));
      case Divergence::kReverseKl:
        return kSweepLn2 * (terms * exp2(d) + (d - e));
      case Divergence::kTopKKl:
        return kSweepLn2 * (terms * exp2(e) - (d - e) * (1 - rest_p_) + OfRest());
      case Divergence::kSkewedKl:
        return kSweepLn2 * (terms - (d - e) * row_sum_) * exp2(e);
      case Divergence::kSkewedReverseKl:
        return kSweepLn2 * (terms + (d - e) * (1 - second_)) * exp2(d);
      case Divergence::kTotalVariation:
        return 0.5 * (terms + kSweepLn2 * (e * (terms - row_sum_) + d * row_sum_));
      case Divergence::kMse:
        return terms / static_cast<double>(options_.vocabulary);
      default:
        return kSweepLn2 * terms;
    }
  }

 private:
  __host__ __device__ Divergence kind() const { return kIsUsual ? Divergence::kForwardKl : options_.divergence; }
  __host__ __device__ bool has_teacher() const { return kind() != Divergence::kNone; }
  __host__ __device__ bool has_softmax() const { return has_teacher() && kind() != Divergence::kMse; }
  static __host__ __device__ float LogitOf(const HeadOutput& head, float product, int64_t i) {
    return kIsUsual ? product * head.scale : distill::LogitOf(head, product, i);
  }
  static __host__ __device__ float LogitOf(const RowOfProducts& row, const HeadOutput& head, int64_t i) {
    return LogitOf(head, LoadProduct(row, i), i);
  }
  static __host__ __device__ RowOfProducts RowAt(const RowOfProducts& rows, int64_t row, int64_t stride) {
    const int64_t element_bytes = rows.dtype == DType::kFloat32 ? 4 : 2;
    return {static_cast<char*>(rows.values) + row * stride * element_bytes, rows.dtype,
            rows.tail != nullptr ? rows.tail + row : nullptr};
  }
  __host__ __device__ bool IsWord() const { return label_ < options_.vocabulary; }
  __host__ __device__ int64_t PlaceIn(int64_t step, int j) const { return (step * kAtOnce + j) * threads_ + first_; }
  __host__ __device__ void LoadOf(const RowOfProducts& row, int64_t step, float (&products)[kAtOnce]) const {
    if (kIsUsual) return LoadAs<float>(row, step, products);
    switch (row.dtype) {  // once, and not for each product: loads wait for no branch
      case DType::kFloat16:
        return LoadAs<__half>(row, step, products);
      case DType::kBFloat16:
        return LoadAs<__nv_bfloat16>(row, step, products);
      default:
        return LoadAs<float>(row, step, products);
    }
  }
  template <typename T>
  __host__ __device__ void LoadAs(const RowOfProducts& row, int64_t step, float (&products)[kAtOnce]) const {
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t i = PlaceIn(step, j);
      products[j] = i < options_.vocabulary ? static_cast<float>(static_cast<const T*>(row.values)[i]) : -INFINITY;
    }
  }

  // To what pass 1 finds. The largest logits of the step first; its sums in float32, as a conversion for each would
  // take longer.
  __host__ __device__ void AddStep(int64_t step, const Products& products, DeviceNormalisers& mine) const {
    float x[kAtOnce], y[kAtOnce], max_x = -INFINITY, max_y = has_softmax() ? -INFINITY : 0;
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t i = PlaceIn(step, j);
      const bool is_there = i < options_.vocabulary;
      x[j] = is_there ? LogitOf(options_.student, products.student[j], i) : -INFINITY;
      y[j] = is_there && has_softmax() ? LogitOf(options_.teacher, products.teacher[j], i) : -INFINITY;
      max_x = x[j] > max_x ? x[j] : max_x;
      max_y = y[j] > max_y ? y[j] : max_y;
    }
    mine.Raise(max_x, max_y, rate());
    float s = 0, s1 = 0, t = 0, reverse = 0;
    for (int j = 0; j < kAtOnce; ++j) {
      const float above = x[j] - mine.max_s, e = PowerOf(above * rate(), x[j]);
      s += e;
      s1 += PowerOf(above * kSweepLog2E, x[j]);
      if (!has_softmax() || PlaceIn(step, j) >= options_.vocabulary) continue;
      t += PowerOf((y[j] - mine.max_t) * rate(), y[j]);
      if (kind() == Divergence::kReverseKl) reverse += e * ((above - (y[j] - mine.max_t)) * rate());
    }
    mine.s += s;
    mine.s1 += s1;
    mine.t += t;
    mine.reverse += reverse;
  }

  __host__ __device__ float GradientAt(int64_t i, float of_student, float of_teacher, float& terms) const {
    const float x = LogitOf(options_.student, of_student, i), log_q = LogQOf(x);
    const float y = has_teacher() ? LogitOf(options_.teacher, of_teacher, i) : 0;
    const float of_ce = label_ < 0 ? 0 : IsWord() ? 1 - options_.alpha : NAN;
    float gradient = of_ce * (exp2f((x - sums_.max_s) * kSweepLog2E - log_s1_) - (i == label_ ? 1 : 0));
    if (has_teacher()) gradient += options_.alpha * options_.temperature * Differ(x, y, log_q, terms);
    const HeadOutput& head = options_.student;
    if (!kIsUsual && head.softcap > 0) gradient *= 1 - (x / head.softcap) * (x / head.softcap);
    return gradient * (head.scale * options_.gradient_scale);
  }

  // 2^power; 0 for a logit of minus infinity, also before any larger one was seen.
  static __host__ __device__ float PowerOf(float power, float logit) { return logit == -INFINITY ? 0 : exp2f(power); }

  __host__ __device__ float LogQOf(float x) const { return (x - sums_.max_s) * rate() - log_s_; }
  __host__ __device__ float LogPOf(float y) const { return (y - sums_.max_t) * rate() - log_t_; }

  __host__ __device__ bool IsRest(float y) const {
    if (OrderOf(y) < top_k_) return true;
    return teacher_.tail != nullptr && y < sums_.max_t - static_cast<float>(kUnnamed / 2) * options_.temperature;
  }
  __host__ __device__ void SetRest(const DeviceRowSums& of_row) {
    double rest_t = of_row.second;
    if (of_row.first > 0 && teacher_.tail != nullptr) {
      const double tail = exp2((static_cast<double>(*teacher_.tail) - sums_.max_t) * rate());
      sums_.t += tail;
      rest_t += tail;
      log_t_ = static_cast<float>(log2(sums_.t));
    }
    rest_p_ = rest_t / sums_.t;
    rest_q_ = of_row.first / sums_.s;
    constexpr double kHighest = 8.5e37;  // a bound, so that times nothing it is nothing
    const double ratio = rest_q_ > 0 ? rest_p_ / rest_q_ : 0;
    of_rest_ = static_cast<float>(1 - (ratio < kHighest ? ratio : kHighest));
  }
  // What the rest adds to the divergence, in bits.
  __host__ __device__ double OfRest() const { return rest_p_ > 0 ? rest_p_ * log2(rest_p_ / rest_q_) : 0; }

  static __host__ __device__ float TeacherOverStudent(float log_p, float log_q) {
    const float ratio = log_p - log_q;
    return ratio > 126 ? 126 : ratio;
  }
  __host__ __device__ float MixtureOverStudent(float log_ratio) const {
    return share_ * exp2f(log_ratio) + (1 - share_);
  }
  static __host__ __device__ float Sign(float value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

  __host__ __device__ void AddToRow(float log_q, float log_p, DeviceRowSums& sums) const {
    const float q = exp2f(log_q), p = exp2f(log_p);
    if (kind() == Divergence::kTotalVariation) {
      sums.first += q * Sign(q - p);
      return;
    }
    const float w = MixtureOverStudent(TeacherOverStudent(log_p, log_q));
    sums.first += kind() == Divergence::kSkewedKl ? (1 - share_) * (p / w) : q * -log2f(w);
    sums.second += (1 - share_) * (q / w);
  }

  // Adds the token's terms, and returns the derivative with respect to x / T (divergence_terms.h).
  __host__ __device__ float Differ(float x, float y, float log_q, float& divergence) const {
    if (kind() == Divergence::kMse) {
      const float difference = (x - y) / options_.temperature;
      divergence += difference * difference;
      return 2 * difference / static_cast<float>(options_.vocabulary);
    }
    const float log_p = LogPOf(y), q = exp2f(log_q), p = exp2f(log_p);
    switch (kind()) {
      case Divergence::kForwardKl:
        divergence += p * (log_p - log_q);
        return q - p;
      case Divergence::kReverseKl:
        divergence += q * (log_q - log_p);
        return static_cast<float>(kSweepLn2) * q * ((log_q - log_p) - row_sum_);
      case Divergence::kTopKKl:
        if (IsRest(y)) return q * of_rest_;
        divergence += p * (log_p - log_q);
        return q - p;
      case Divergence::kTotalVariation:
        divergence += q > p ? q - p : p - q;
        return 0.5f * (q * (Sign(q - p) - row_sum_));
      default:
        return DifferFromMixture(log_q, q, log_p, p, divergence);
    }
  }
  __host__ __device__ float DifferFromMixture(float log_q, float q, float log_p, float p, float& divergence) const {
    const float ratio = TeacherOverStudent(log_p, log_q), w = MixtureOverStudent(ratio), of_student = -log2f(w);
    if (kind() == Divergence::kJensenShannon) {
      divergence += share_ * (p * (ratio + of_student)) + (1 - share_) * (q * of_student);
      return static_cast<float>(kSweepLn2) * (1 - share_) * (q * (of_student - row_sum_));
    }
    const float inverse = (1 - share_) / w;
    if (kind() == Divergence::kSkewedKl) {
      divergence += p * (ratio + of_student);
      return q * row_sum_ - p * inverse;
    }
    divergence += q * of_student;
    return q * (static_cast<float>(kSweepLn2) * (of_student - row_sum_) - (inverse - static_cast<float>(second_)));
  }

  const RowOfProducts student_, teacher_, gradient_;
  const int64_t label_;
  const SweepOptions options_;
  const float share_;  // of the teacher in the mixture
  const int first_, threads_;
  DeviceNormalisers sums_;
  float log_s_ = 0, log_s1_ = 0, log_t_ = 0;
  float row_sum_ = 0;
  double second_ = 0;
  uint32_t top_k_ = 0;  // the order of the k-th largest logit
  double rest_p_ = 0, rest_q_ = 0;
  float of_rest_ = 0;
};

}  // namespace distill
