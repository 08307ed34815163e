// The sweep's loops, compiled once for each kind of CPU. All but what sweep.h declares is in an unnamed
// namespace, for the reason given there.
//
// A row of 152,064 logits is 600 KB: it comes from memory once, for the first pass, and from the cache for the second.
// Both go through it in blocks of 1,024, which lie in the first-level cache while they are widened, scaled and capped.
//
//   pass 1   m = max s, n = max t;  S = sum exp((s - m) / T), S1 = sum exp(s - m), P = sum exp((t - n) / T), and for
//            the reverse KL E = sum exp((s - m) / T) ((s - m) - (t - n)) / T. When a block raises a maximum, the sums
//            so far are scaled down (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
//   pass 2   log q = (s - m) / T - log S, log p = (t - n) / T - log P, c = exp(s - m) / S1: divergence and gradient
//            (divergence_terms.h). log S and log P are rounded to float32 there, by d and e: the divergence is freed of
//            that in the end.
// Between them lies a sum over the row for those whose gradient needs one, and before them, for the KL of the top k, a
// search for the k-th largest logit.
//
// Exponentials and logarithms are to base 2, which saves reducing the range by multiples of ln 2.
// A row takes two exponentials a model and token in each pass, three for the student where softmax(s) is no power of
// softmax(s / T): at T = 1 they are the same, at T = 2 one is the other's square.
#include <cmath>
#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/core/vectors.h"
#include "libdistill/loss/divergence_terms.h"
#include "libdistill/loss/kth_largest.h"
#include "libdistill/loss/logit_row.h"
#include "libdistill/loss/sweep.h"

namespace distill {
namespace {

// The normalisers of one row.
struct Normalisers {
  float max_s = -INFINITY, max_t = -INFINITY;
  double s = 0, s1 = 0, t = 0;    // S, S1, P
  double reverse = 0;             // E
  double rest_s = 0, rest_t = 0;  // of S and P, what is not among the top k
};

// softmax(s) out of e = exp((s - m) / T).
enum class Tempered { kNot, kSquare, kApart };  // T = 1, T = 2, any other

template <Divergence kind, Tempered tempered>
class Sweep {
 public:
  using Terms = DivergenceTerms<kind>;

  Sweep(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options)
      : student_(student, options.student),
        teacher_(teacher, options.teacher),
        tail_(teacher.tail),
        label_(label),
        options_(options),
        rate_(Terms::kHasSoftmaxOfTeacher ? kLog2E / options.temperature : kLog2E),
        terms_(options) {}

  SweepSums Run() {
    if (kind == Divergence::kTopKKl) FindTopK();
    EachBlock([this](int64_t first, int64_t count) { Normalise(first, count); });
    if (kind == Divergence::kTopKKl) SetRest();
    log_s_ = static_cast<float>(std::log2(sums_.s));
    log_t_ = static_cast<float>(std::log2(sums_.t));
    log_s1_ = static_cast<float>(std::log2(sums_.s1));
    float buffer[1];
    SweepSums result;
    if (label_ >= 0) {
      result.ce = std::log(sums_.s1) - (static_cast<double>(*student_.Block(label_, 1, buffer)) - sums_.max_s);
    }
    if (kind == Divergence::kReverseKl) {
      terms_.SetRowSum(static_cast<float>(sums_.reverse / sums_.s - log_s_ + log_t_));
    }
    if (Terms::kNeedsRow || (Terms::kNeedsRowForGradient && options_.wants_gradient)) SumRow();
    if (Terms::kHasTeacher || options_.wants_gradient) {
      double terms = 0;
      EachBlock([&](int64_t first, int64_t count) { terms += Finish(first, count); });
      result.divergence = terms_.Value(terms, log_s_ - std::log2(sums_.s), log_t_ - std::log2(sums_.t));
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

  // Those at the k-th largest logit are all in. What a teacher of top-k values does not name is below, whatever k is.
  void FindTopK() {
    KthLargest logits(options_.top_k);
    EachBlock([&](int64_t first, int64_t count) {
      alignas(64) float buffer[kBlock];
      logits.Add(teacher_.Block(first, count, buffer), count);
    });
    rest_.below = logits.value();
    const float unnamed = logits.largest() - static_cast<float>(kUnnamed / 2) * options_.temperature;
    if (tail_ != nullptr && rest_.below < unnamed) rest_.below = unnamed;
  }

  void SetRest() {
    // No token is left: there is no such event either.
    if (sums_.rest_s > 0 && tail_ != nullptr) {
      const double tail = std::exp2((static_cast<double>(*tail_) - sums_.max_t) * rate_);
      sums_.t += tail;
      sums_.rest_t += tail;
    }
    rest_.p = sums_.rest_t / sums_.t;
    rest_.q = sums_.rest_s / sums_.s;
    terms_.SetRest(rest_);
  }

  void Normalise(int64_t first, int64_t count) {
    alignas(64) float buffer_s[kBlock], buffer_t[kBlock];
    const float* s = student_.Block(first, count, buffer_s);
    const float* t = Terms::kHasSoftmaxOfTeacher ? teacher_.Block(first, count, buffer_t) : nullptr;
    RaiseMaxima(Largest(s, count), Terms::kHasSoftmaxOfTeacher ? Largest(t, count) : 0);
    Sum sum_s, sum_s1, sum_t, sum_reverse, rest_s, rest_t;
    // Of a row that has begun with nothing but -inf: any number does, the next maximum takes all sums to 0.
    const float max_s = sums_.max_s == -INFINITY ? 0 : sums_.max_s, max_t = sums_.max_t == -INFINITY ? 0 : sums_.max_t;
    const float rate = rate_, below = rest_.below;
    ForEach(count, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V x = Load<V>(s + i), above = x - max_s;
      const V e = Exp2(above * rate);
      sum_s.Add(e);
      if (tempered == Tempered::kSquare) sum_s1.Add(e * e);
      if (tempered == Tempered::kApart) sum_s1.Add(Exp2(above * kLog2E));
      if (!Terms::kHasSoftmaxOfTeacher) return;
      const V y = Load<V>(t + i), of_teacher = y - max_t, e_t = Exp2(of_teacher * rate);
      sum_t.Add(e_t);
      if (kind == Divergence::kReverseKl) sum_reverse.Add(e * ((above - of_teacher) * rate));
      if (kind != Divergence::kTopKKl) return;
      rest_s.Add(y < below ? e : V{});
      rest_t.Add(y < below ? e_t : V{});
    });
    sums_.s += sum_s.Total();
    sums_.s1 += tempered == Tempered::kNot ? sum_s.Total() : sum_s1.Total();
    sums_.t += sum_t.Total();
    sums_.reverse += sum_reverse.Total();
    sums_.rest_s += rest_s.Total();
    sums_.rest_t += rest_t.Total();
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
      sums_.rest_s *= factor;
      sums_.s1 *= std::exp(by);
      sums_.max_s = max_s;
    }
    if (Terms::kHasSoftmaxOfTeacher && max_t > sums_.max_t) {
      const double factor = std::exp2((static_cast<double>(sums_.max_t) - max_t) * rate_);
      sums_.t *= factor;
      sums_.rest_t *= factor;
      sums_.max_t = max_t;
    }
  }

  template <typename V>
  TokenLogits<V> Token(V x, V y) const {
    TokenLogits<V> token = {x, y, (x - sums_.max_s) * rate_ - log_s_, {}, {}};
    token.q = Exp2(token.log_q);
    if (Terms::kHasSoftmaxOfTeacher) token.log_p = (y - sums_.max_t) * rate_ - log_t_;
    return token;
  }

  void SumRow() {
    double first_sum = 0, second_sum = 0;
    EachBlock([&](int64_t first, int64_t count) {
      alignas(64) float buffer_s[kBlock], buffer_t[kBlock];
      const float* s = student_.Block(first, count, buffer_s);
      const float* t = teacher_.Block(first, count, buffer_t);
      Sum one, two;
      ForEach(count, [&](auto v, int64_t i) {
        using V = decltype(v);
        terms_.AddToRow(Token(Load<V>(s + i), Load<V>(t + i)), one, two);
      });
      first_sum += one.Total();
      second_sum += two.Total();
    });
    terms_.SetRow(first_sum, second_sum);
  }

  // The block's part of the divergence; its gradient in place of the student's products, where one is wanted.
  double Finish(int64_t first, int64_t count) {
    alignas(64) float buffer_s[kBlock], buffer_t[kBlock], gradient[kBlock];
    const float* s = student_.Block(first, count, buffer_s);
    const float* t = Terms::kHasTeacher ? teacher_.Block(first, count, buffer_t) : nullptr;
    const float of_kl = options_.alpha * options_.temperature * Terms::kDerivativeScale;
    const float of_ce = label_ >= 0 ? 1 - options_.alpha : 0;
    const float of_square = static_cast<float>(of_ce * sums_.s * sums_.s / sums_.s1);
    Sum divergence;
    ForEach(count, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V x = Load<V>(s + i);
      const TokenLogits<V> token = Token(x, Terms::kHasTeacher ? Load<V>(t + i) : V{});
      V g = {};
      if (tempered == Tempered::kNot) g = of_ce * token.q;
      if (tempered == Tempered::kSquare) g = of_square * (token.q * token.q);
      if (tempered == Tempered::kApart && of_ce > 0) g = of_ce * Exp2((x - sums_.max_s) * kLog2E - log_s1_);
      if (Terms::kHasTeacher) g += of_kl * terms_.Differ(token, divergence);
      Store(gradient + i, g);
    });
    if (options_.wants_gradient) {
      if (label_ >= first && label_ < first + count) gradient[label_ - first] -= of_ce;
      student_.PutGradient(first, count, s, options_.gradient_scale, gradient);
    }
    return divergence.Total();
  }

  Row student_;
  const Row teacher_;
  const float* const tail_;
  const int64_t label_;
  const SweepOptions& options_;
  const float rate_;  // logits times it are binary logarithms at temperature T
  Normalisers sums_;
  Rest rest_;
  float log_s_ = 0, log_s1_ = 0, log_t_ = 0;  // binary, as all logarithms here
  Terms terms_;
};

template <Divergence kind>
SweepSums SweepWith(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options) {
  // Without a label nothing asks for the softmax at T = 1.
  if (!DivergenceTerms<kind>::kHasSoftmaxOfTeacher || options.temperature == 1 || label < 0) {
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
    case Divergence::kTopKKl:
      return SweepWith<Divergence::kTopKKl>(student, teacher, label, options);
    case Divergence::kSkewedKl:
      return SweepWith<Divergence::kSkewedKl>(student, teacher, label, options);
    case Divergence::kSkewedReverseKl:
      return SweepWith<Divergence::kSkewedReverseKl>(student, teacher, label, options);
    case Divergence::kTotalVariation:
      return SweepWith<Divergence::kTotalVariation>(student, teacher, label, options);
    case Divergence::kMse:
      return SweepWith<Divergence::kMse>(student, teacher, label, options);
    case Divergence::kNone:
      break;
  }
  return SweepWith<Divergence::kNone>(student, teacher, label, options);
}

}  // namespace

const SweepRowFunction DISTILL_FOR_ITS_CPU(kSweep) = SweepRowLoops;

}  // namespace distill
