// The sweep's loops, compiled once for each kind of CPU. All but what sweep.h declares is in an unnamed
// namespace, for the reason given there.
//
// A row of 152,064 logits is 600 KB: it comes from memory once, for the first pass, and from the cache for the second.
// Both go through it in blocks of 1,024, which lie in the first-level cache while they are widened, scaled and capped.
//
//   pass 1   m = max s, n = max t;  S = sum exp((s - m) / T), S1 = sum exp(s - m), P = sum exp((t - n) / T), and for
//            the reverse KL E = sum exp((s - m) / T) ((s - m) - (t - n)) / T. When a block raises a maximum, the sums
//            so far are scaled down (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
//   pass 2   log q = (s - m) / T - log S, log p = (t - n) / T - log P, c = exp(s - m) / S1: divergence and gradient.
//            log S and log P are rounded to float32 there, by d and e: the divergence is freed of that in the end.
//
// Exponentials and logarithms are to base 2, which saves reducing the range by multiples of ln 2.
// A row takes two exponentials a model and token in each pass, three for the student where softmax(s) is no power of
// softmax(s / T): at T = 1 they are the same, at T = 2 one is the other's square.
#include <cmath>
#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/core/vectors.h"
#include "libdistill/loss/logit_row.h"
#include "libdistill/loss/sweep.h"

namespace distill {
namespace {

// The normalisers of one row.
struct Normalisers {
  float max_s = -INFINITY, max_t = -INFINITY;
  double s = 0, s1 = 0, t = 0;  // S, S1, P
  double reverse = 0;           // E
};

// softmax(s) out of e = exp((s - m) / T).
enum class Tempered { kNot, kSquare, kApart };  // T = 1, T = 2, any other

template <Divergence kind, Tempered tempered>
class Sweep {
 public:
  static constexpr bool kHasTeacher = kind != Divergence::kNone;
  static constexpr bool kNeedsRowSum = kind == Divergence::kReverseKl || kind == Divergence::kJensenShannon;

  Sweep(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options)
      : student_(student, options.student),
        teacher_(teacher, options.teacher),
        label_(label),
        options_(options),
        rate_(kHasTeacher ? kLog2E / options.temperature : kLog2E) {}

  SweepSums Run() {
    EachBlock([this](int64_t first, int64_t count) { Normalise(first, count); });
    log_s_ = static_cast<float>(std::log2(sums_.s));
    log_t_ = static_cast<float>(std::log2(sums_.t));
    log_s1_ = static_cast<float>(std::log2(sums_.s1));
    float buffer[1];
    SweepSums result;
    if (label_ >= 0) {
      result.ce = std::log(sums_.s1) - (static_cast<double>(*student_.Block(label_, 1, buffer)) - sums_.max_s);
    }
    if (kind == Divergence::kReverseKl) {
      row_sum_ = static_cast<float>(sums_.reverse / sums_.s - log_s_ + log_t_);  // as rounded as what it is taken from
    }
    if (kind == Divergence::kJensenShannon && options_.wants_gradient) {
      double of_student = 0;
      EachBlock([&](int64_t first, int64_t count) { of_student += StudentToMixture(first, count); });
      row_sum_ = static_cast<float>(of_student);
    }
    if (kHasTeacher || options_.wants_gradient) {
      double terms = 0;
      EachBlock([&](int64_t first, int64_t count) { terms += Finish(first, count); });
      result.divergence = kLn2 * WithoutRounding(terms);
    }
    return result;
  }

 private:
  template <typename F>
  void EachBlock(F&& f) const {
    for (int64_t first = 0; first < options_.vocabulary; first += kBlock) {
      f(first, options_.vocabulary - first < kBlock ? options_.vocabulary - first : kBlock);
    }
  }

  void Normalise(int64_t first, int64_t count) {
    alignas(64) float buffer_s[kBlock], buffer_t[kBlock];
    const float* s = student_.Block(first, count, buffer_s);
    const float* t = kHasTeacher ? teacher_.Block(first, count, buffer_t) : nullptr;
    RaiseMaxima(Largest(s, count), kHasTeacher ? Largest(t, count) : 0);
    Sum sum_s, sum_s1, sum_t, sum_reverse;
    // Of a row that has begun with nothing but -inf: any number does, the next maximum takes all sums to 0.
    const float max_s = sums_.max_s == -INFINITY ? 0 : sums_.max_s, max_t = sums_.max_t == -INFINITY ? 0 : sums_.max_t;
    const float rate = rate_;
    ForEach(count, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V x = Load<V>(s + i), above = x - max_s;
      const V e = Exp2(above * rate);
      sum_s.Add(e);
      if (tempered == Tempered::kSquare) sum_s1.Add(e * e);
      if (tempered == Tempered::kApart) sum_s1.Add(Exp2(above * kLog2E));
      if (!kHasTeacher) return;
      const V of_teacher = Load<V>(t + i) - max_t;
      sum_t.Add(Exp2(of_teacher * rate));
      if (kind == Divergence::kReverseKl) sum_reverse.Add(e * ((above - of_teacher) * rate));
    });
    sums_.s += sum_s.Total();
    sums_.s1 += tempered == Tempered::kNot ? sum_s.Total() : sum_s1.Total();
    sums_.t += sum_t.Total();
    sums_.reverse += sum_reverse.Total();
  }

  void RaiseMaxima(float max_s, float max_t) {
    if (kind == Divergence::kReverseKl && sums_.s > 0) {
      const double by_s = max_s > sums_.max_s ? static_cast<double>(max_s) - sums_.max_s : 0;
      const double by_t = max_t > sums_.max_t ? static_cast<double>(max_t) - sums_.max_t : 0;
      sums_.reverse -= sums_.s * (by_s - by_t) * rate_;
    }
    if (max_s > sums_.max_s) {
      const double by = static_cast<double>(sums_.max_s) - max_s, factor = std::exp2(by * rate_);
      sums_.s *= factor;
      sums_.reverse *= factor;
      sums_.s1 *= std::exp(by);
      sums_.max_s = max_s;
    }
    if (kHasTeacher && max_t > sums_.max_t) {
      sums_.t *= std::exp2((static_cast<double>(sums_.max_t) - max_t) * rate_);
      sums_.max_t = max_t;
    }
  }

  // sum of q (log q - log m) over the block, m = beta p + (1 - beta) q.
  double StudentToMixture(int64_t first, int64_t count) const {
    alignas(64) float buffer_s[kBlock], buffer_t[kBlock];
    const float* s = student_.Block(first, count, buffer_s);
    const float* t = teacher_.Block(first, count, buffer_t);
    Sum sum;
    ForEach(count, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V log_q = LogQ(Load<V>(s + i)), log_p = LogP(Load<V>(t + i));
      sum.Add(Exp2(log_q) * -MixtureOverStudent(TeacherOverStudent(log_p, log_q)));
    });
    return sum.Total();
  }

  template <typename V>
  V LogQ(V x) const {
    return (x - sums_.max_s) * rate_ - log_s_;
  }
  template <typename V>
  V LogP(V y) const {
    return (y - sums_.max_t) * rate_ - log_t_;
  }

  // log (p / q), bounded so that its power is a number: where the bound is met, q is nothing beside p.
  template <typename V>
  V TeacherOverStudent(V log_p, V log_q) const {
    const V highest = V{} + 126.0f;
    return -Larger(-highest, log_q - log_p);
  }
  // log (m / q) = log (beta p / q + 1 - beta): exact where p and q are near each other, unlike log m - log q.
  template <typename V>
  V MixtureOverStudent(V log_ratio) const {
    return Log2(options_.beta * Exp2(log_ratio) + (1 - options_.beta));
  }

  // The block's part of the divergence; its gradient in place of the student's products, where one is wanted.
  double Finish(int64_t first, int64_t count) {
    alignas(64) float buffer_s[kBlock], buffer_t[kBlock], gradient[kBlock];
    const float* s = student_.Block(first, count, buffer_s);
    const float* t = kHasTeacher ? teacher_.Block(first, count, buffer_t) : nullptr;
    const float of_kl = options_.alpha * options_.temperature * DerivativeScale();
    const float of_ce = label_ >= 0 ? 1 - options_.alpha : 0;
    const float of_square = static_cast<float>(of_ce * sums_.s * sums_.s / sums_.s1);
    Sum divergence;
    ForEach(count, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V x = Load<V>(s + i), log_q = LogQ(x), q = Exp2(log_q);
      V g = {};
      if (tempered == Tempered::kNot) g = of_ce * q;
      if (tempered == Tempered::kSquare) g = of_square * (q * q);
      if (tempered == Tempered::kApart && of_ce > 0) g = of_ce * Exp2((x - sums_.max_s) * kLog2E - log_s1_);
      if (kHasTeacher) g += of_kl * Differ(q, log_q, LogP(Load<V>(t + i)), divergence);
      Store(gradient + i, g);
    });
    if (options_.wants_gradient) {
      if (label_ >= first && label_ < first + count) gradient[label_ - first] -= of_ce;
      student_.PutGradient(first, count, s, options_.gradient_scale, gradient);
    }
    return divergence.Total();
  }

  // The divergence out of the sum of its terms. Each has log S and log P rounded by the same d and e, which does not
  // average out as the terms' own rounding does:
  //   sum of p 2^-e (log p - e - log q + d) = 2^-e (KL + d - e)
  // and so with q for the reverse. In Jensen-Shannon's terms what d - e adds to one side it takes from the other.
  double WithoutRounding(double terms) const {
    const double d = log_s_ - std::log2(sums_.s), e = log_t_ - std::log2(sums_.t);
    if (kind == Divergence::kForwardKl) return terms * std::exp2(e) - (d - e);
    if (kind == Divergence::kReverseKl) return terms * std::exp2(d) + (d - e);
    return terms;
  }

  // What Differ's result lacks: natural logarithms where it has binary ones.
  static float DerivativeScale() { return kNeedsRowSum ? static_cast<float>(kLn2) : 1.0f; }

  // Adds the divergence's terms in binary logarithms, and returns the derivative with respect to s / T.
  template <typename V>
  V Differ(V q, V log_q, V log_p, Sum& divergence) const {
    const V p = Exp2(log_p);
    if (kind == Divergence::kForwardKl) {
      divergence.Add(p * (log_p - log_q));
      return q - p;
    }
    if (kind == Divergence::kReverseKl) {
      divergence.Add(q * (log_q - log_p));
      return q * ((log_q - log_p) - row_sum_);
    }
    const float beta = options_.beta;
    const V ratio = TeacherOverStudent(log_p, log_q), of_student = -MixtureOverStudent(ratio);  // log (q / m)
    divergence.Add(beta * (p * (ratio + of_student)) + (1 - beta) * (q * of_student));
    return (1 - beta) * (q * (of_student - row_sum_));
  }

  Row student_;
  const Row teacher_;
  const int64_t label_;
  const SweepOptions& options_;
  const float rate_;  // logits times it are binary logarithms at temperature T
  Normalisers sums_;
  float log_s_ = 0, log_s1_ = 0, log_t_ = 0;  // binary, as all logarithms here
  float row_sum_ = 0;                         // KL(q || p), or KL(q || m)
};

template <Divergence kind>
SweepSums SweepWith(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options) {
  // Without a label nothing asks for the softmax at T = 1.
  if (kind == Divergence::kNone || options.temperature == 1 || label < 0) {
    return Sweep<kind, Tempered::kNot>(student, teacher, label, options).Run();
  }
  if (options.temperature == 2) {
    return Sweep<kind, Tempered::kSquare>(student, teacher, label, options).Run();
  }
  return Sweep<kind, Tempered::kApart>(student, teacher, label, options).Run();
}

SweepSums SweepRowLoops(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options) {
  switch (options.divergence) {
    case Divergence::kForwardKl:
      return SweepWith<Divergence::kForwardKl>(student, teacher, label, options);
    case Divergence::kReverseKl:
      return SweepWith<Divergence::kReverseKl>(student, teacher, label, options);
    case Divergence::kJensenShannon:
      return SweepWith<Divergence::kJensenShannon>(student, teacher, label, options);
    case Divergence::kNone:
      break;
  }
  return SweepWith<Divergence::kNone>(student, teacher, label, options);
}

}  // namespace

const SweepRowFunction DISTILL_FOR_ITS_CPU(kSweep) = SweepRowLoops;

}  // namespace distill
