// One token's part of each divergence, and of its gradient: for loops that are compiled for several kinds of CPU
// (sweep_loops.cc), and for nothing else. Everything is in an unnamed namespace, as in core/vector_math.h.
//
// Logarithms are binary: those divergences that are made of logarithms, and what is taken from them, are in bits until
// the end. The formulas are those of docs/losses.md; w = m / q for a mixture m = share p + (1 - share) q.
#pragma once

#include <cmath>
#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/loss/sweep.h"

namespace distill {
namespace {

// Of one token, at temperature T.
template <typename V>
struct TokenLogits {
  V x, y;      // logits of student and teacher
  V log_q, q;  // the student's probability
  V log_p;     // the teacher's; not there for kMse
};

// What the tokens beside the teacher's likeliest ones have together (kTopKKl).
struct Rest {
  float below = -INFINITY;  // they are those with a smaller logit of the teacher
  double p = 0, q = 0;
};

template <Divergence kind>
class DivergenceTerms {
 public:
  static constexpr bool kHasTeacher = kind != Divergence::kNone;
  static constexpr bool kHasSoftmaxOfTeacher = kHasTeacher && kind != Divergence::kMse;
  static constexpr bool kIsSkewed = kind == Divergence::kSkewedKl || kind == Divergence::kSkewedReverseKl;
  // Sums over the row, by AddToRow, that its gradient needs, or what frees the divergence of rounding.
  static constexpr bool kNeedsRowForGradient = kind == Divergence::kJensenShannon;
  static constexpr bool kNeedsRow = kIsSkewed || kind == Divergence::kTotalVariation;
  // Differ's result is to be multiplied by it: natural logarithms for binary ones.
  static constexpr float kDerivativeScale =
      kind == Divergence::kReverseKl || kind == Divergence::kJensenShannon || kind == Divergence::kSkewedReverseKl
          ? static_cast<float>(kLn2)
          : 1.0f;

  explicit DivergenceTerms(const SweepOptions& options)
      : share_(kind == Divergence::kSkewedKl          ? options.skew
               : kind == Divergence::kSkewedReverseKl ? 1 - options.skew
                                                      : options.beta),
        rate_(1 / options.temperature),
        of_token_(1 / static_cast<float>(options.vocabulary)) {}

  template <typename V>
  void AddToRow(const TokenLogits<V>& token, Sum& first, Sum& second) const {
    if (kind == Divergence::kTotalVariation) {
      first.Add(token.q * SignOfDifference(token));
      return;
    }
    const V w = MixtureOverStudent(TeacherOverStudent(token.log_p, token.log_q));
    if (kind == Divergence::kSkewedKl) {
      first.Add((1 - share_) * (Exp2(token.log_p) / w));
      return;
    }
    first.Add(token.q * -Log2(w));
    if (kind == Divergence::kSkewedReverseKl) second.Add((1 - share_) * (token.q / w));
  }
  void SetRow(double first, double second) {
    row_sum_ = static_cast<float>(first);
    second_ = second;
  }
  // Of the reverse KL, as rounded as what it is taken from.
  void SetRowSum(float row_sum) { row_sum_ = row_sum; }
  void SetRest(const Rest& rest) {
    rest_ = rest;
    constexpr double kHighest = 0x1p126;  // a bound, so that times nothing it is nothing
    const double ratio = rest.q > 0 ? rest.p / rest.q : 0;
    of_rest_ = static_cast<float>(1 - (ratio < kHighest ? ratio : kHighest));
  }

  // Adds the token's terms, and returns the derivative with respect to x / T over kDerivativeScale.
  template <typename V>
  V Differ(const TokenLogits<V>& token, Sum& divergence) const {
    const auto& [x, y, log_q, q, log_p] = token;
    if (kind == Divergence::kMse) {
      const V difference = (x - y) * rate_;
      divergence.Add(difference * difference);
      return (2 * of_token_) * difference;
    }
    if (kind == Divergence::kReverseKl) {
      divergence.Add(q * (log_q - log_p));
      return q * ((log_q - log_p) - row_sum_);
    }
    const V p = Exp2(log_p);
    if (kind == Divergence::kForwardKl) {
      divergence.Add(p * (log_p - log_q));
      return q - p;
    }
    if (kind == Divergence::kTopKKl) {
      divergence.Add(y < rest_.below ? V{} : p * (log_p - log_q));
      return y < rest_.below ? q * of_rest_ : q - p;
    }
    if (kind == Divergence::kTotalVariation) {
      divergence.Add(Larger(p - q, q - p));
      return 0.5f * (q * (SignOfDifference(token) - row_sum_));
    }
    return DifferFromMixture(token, p, divergence);
  }

  // The divergence, in nats, out of the sum of its terms. Each has log S and log P rounded by the same d and e, which
  // does not average out as the terms' own rounding does:
  //   sum of p 2^-e (log p - e - log q + d) = 2^-e (KL + d - e)
  // and so with q for the reverse. In Jensen-Shannon's terms what d - e adds to one side it takes from the other; of
  // the skewed ones a part is taken. Total variation: to the sum of |p 2^-e - q 2^-d| belong e ln 2 times that of
  // p sgn(p - q), and d ln 2 times that of q sgn(q - p).
  double Value(double terms, double d, double e) const {
    switch (kind) {
      case Divergence::kForwardKl:
        return kLn2 * (terms * std::exp2(e) - (d - e));
      case Divergence::kReverseKl:
        return kLn2 * (terms * std::exp2(d) + (d - e));
      case Divergence::kTopKKl:
        return kLn2 * (terms * std::exp2(e) - (d - e) * (1 - rest_.p) + OfRest());
      case Divergence::kSkewedKl:
        return kLn2 * (terms - (d - e) * row_sum_) * std::exp2(e);
      case Divergence::kSkewedReverseKl:
        return kLn2 * (terms + (d - e) * (1 - second_)) * std::exp2(d);
      case Divergence::kTotalVariation:
        return 0.5 * (terms + kLn2 * (e * (terms - row_sum_) + d * row_sum_));
      case Divergence::kMse:
        return terms * of_token_;
      default:
        return kLn2 * terms;
    }
  }

 private:
  // log (p / q), bounded so that its power is a number: where the bound is met, q is nothing beside p.
  template <typename V>
  V TeacherOverStudent(V log_p, V log_q) const {
    const V highest = V{} + 126.0f;
    return -Larger(-highest, log_q - log_p);
  }
  // w = share p / q + 1 - share: its logarithm is exact where p and q are near each other, unlike log m - log q.
  template <typename V>
  V MixtureOverStudent(V log_ratio) const {
    return share_ * Exp2(log_ratio) + (1 - share_);
  }
  // sgn(q - p)
  template <typename V>
  static V SignOfDifference(const TokenLogits<V>& token) {
    const V p = Exp2(token.log_p), one = V{} + 1.0f;
    return token.q > p ? one : token.q < p ? -one : V{};
  }

  template <typename V>
  V DifferFromMixture(const TokenLogits<V>& token, V p, Sum& divergence) const {
    const V q = token.q, ratio = TeacherOverStudent(token.log_p, token.log_q);
    const V w = MixtureOverStudent(ratio), of_student = -Log2(w);  // log (q / m)
    if (kind == Divergence::kJensenShannon) {
      divergence.Add(share_ * (p * (ratio + of_student)) + (1 - share_) * (q * of_student));
      return (1 - share_) * (q * (of_student - row_sum_));
    }
    const V inverse = (1 - share_) / w;
    if (kind == Divergence::kSkewedKl) {
      divergence.Add(p * (ratio + of_student));
      return q * row_sum_ - p * inverse;
    }
    divergence.Add(q * of_student);
    return q * ((of_student - row_sum_) - kLog2E * (inverse - static_cast<float>(second_)));
  }

  // What the rest adds to the divergence, in bits.
  double OfRest() const { return rest_.p > 0 ? rest_.p * std::log2(rest_.p / rest_.q) : 0; }

  const float share_;     // of the teacher in the mixture
  const float rate_;      // 1 / T
  const float of_token_;  // 1 / V
  // The reverse KL's: KL(q || p). Of AddToRow: sum of q log (q / m), q sgn(q - p), or (1 - share) p / w.
  float row_sum_ = 0;
  double second_ = 0;  // sum of (1 - share) q / w
  Rest rest_;
  float of_rest_ = 0;  // 1 - p / q of it
};

}  // namespace
}  // namespace distill
