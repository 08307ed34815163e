#include "tests/loss/sweep_reference.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "libdistill/core/vectors.h"

namespace distill::testing {
namespace {

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

}  // namespace

Expected Compute(const std::vector<float>& student, const std::vector<float>& teacher, size_t label,
                 const SweepOptions& o, double tail) {
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

double Error(const std::vector<float>& actual, const Expected& expected, double least) {
  double worst = 0, largest = least;
  for (size_t i = 0; i < actual.size(); ++i) {
    worst = std::max(worst, std::abs(actual[i] - expected.gradient[i]) - expected.undecided[i]);
    largest = std::max(largest, std::abs(expected.gradient[i]));
  }
  return worst / largest;
}

std::vector<float> Random(int64_t size, double deviation, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<Loops> AllLoops() {
  std::vector<Loops> all = {{"plain", kSweepPlain}};
#if defined(__x86_64__)
  if (VectorsOfThisCpu() != Vectors::kPlain) all.push_back({"avx2", kSweepAvx2});
  if (VectorsOfThisCpu() == Vectors::kAvx512) all.push_back({"avx512", kSweepAvx512});
#endif
  return all;
}

}  // namespace distill::testing
