#include <algorithm>
#include <cmath>
#include <tuple>

#include "libdistill/loss/chunk_sweep.h"

namespace distill {
namespace {

using torch::Tensor;

Tensor Logits(const ChunkProducts& products) {
  Tensor logits = products.values.to(at::promote_types(products.values.scalar_type(), torch::kFloat32));
  if (products.bias.defined()) logits = logits + products.bias;
  const auto& [scale, softcap] = products.scaling;
  if (scale != 1) logits = logits * scale;
  return softcap > 0 ? torch::tanh(logits / softcap) * softcap : logits;
}

// Sum over tokens, and the derivative with respect to the student's logits over T.
struct Differed {
  Tensor sum, gradient;
};

// From the student to `log_m`, which holds `held` of it: the teacher (0), or a mixture whose own change is counted in.
Differed FromStudent(const Tensor& log_q, const Tensor& log_m, double held) {
  const Tensor q = log_q.exp(), ratio = log_q - log_m;
  const Tensor change = held > 0 ? ratio - held * ratio.exp() : ratio;
  return {(q * ratio).sum(torch::kFloat64), q * (change - (q * change).sum(1, /*keepdim=*/true))};
}

Differed JensenShannon(const Tensor& log_p, const Tensor& log_q, double beta) {
  const Tensor log_m = torch::logaddexp(log_p + std::log(beta), log_q + std::log1p(-beta));
  // What changes in the mixture cancels between the two sides.
  const Differed student = FromStudent(log_q, log_m, 0);
  const Tensor teacher = (log_p.exp() * (log_p - log_m)).sum(torch::kFloat64);
  return {beta * teacher + (1 - beta) * student.sum, (1 - beta) * student.gradient};
}

Differed Skewed(const Tensor& log_p, const Tensor& log_q, double skew) {
  const Tensor log_m = torch::logaddexp(log_p + std::log(skew), log_q + std::log1p(-skew)), p = log_p.exp();
  const Tensor share = p * (log_q - log_m).exp() * (1 - skew);
  return {(p * (log_p - log_m)).sum(torch::kFloat64), log_q.exp() * share.sum(1, /*keepdim=*/true) - share};
}

Differed TotalVariation(const Tensor& p, const Tensor& q) {
  const Tensor sign = (q - p).sgn();
  return {0.5 * (q - p).abs().sum(torch::kFloat64), 0.5 * q * (sign - (q * sign).sum(1, /*keepdim=*/true))};
}

// `logits`: the teacher's. `tail`: [C, 1] or undefined.
Differed TopKKl(const Tensor& logits, const Tensor& tail, const Tensor& log_q, const DistillationOptions& options) {
  const double t = options.temperature;
  const int64_t k = std::min(options.top_k_logits.value_or(kDefaultTopK), logits.size(1));
  Tensor is_rest = logits.lt(std::get<0>(logits.topk(k, 1)).narrow(1, k - 1, 1));
  Tensor log_sum = at::logsumexp(logits / t, {1}, /*keepdim=*/true);
  const Tensor over = [&] {
    if (!tail.defined()) return Tensor();
    is_rest.logical_or_(logits.lt(logits.amax(1, /*keepdim=*/true) - kUnnamed / 2 * t));
    return tail.masked_fill(is_rest.any(1, /*keepdim=*/true).logical_not(), -INFINITY) / t;
  }();
  if (over.defined()) log_sum = torch::logaddexp(log_sum, over);
  const Tensor log_p = logits / t - log_sum, p = log_p.exp().masked_fill(is_rest, 0), q = log_q.exp();
  Tensor rest_p = log_p.exp().masked_fill(is_rest.logical_not(), 0).sum(1, /*keepdim=*/true);
  if (over.defined()) rest_p = rest_p + (over - log_sum).exp();
  const Tensor rest_q = q.masked_fill(is_rest.logical_not(), 0).sum(1, /*keepdim=*/true);
  const Tensor of_rest = torch::xlogy(rest_p, rest_p / rest_q).masked_fill(rest_p.eq(0), 0);
  const Tensor sum = (p * (log_p - log_q).masked_fill(is_rest, 0)).sum(torch::kFloat64) + of_rest.sum(torch::kFloat64);
  const Tensor ratio = (rest_p / rest_q).masked_fill(rest_p.eq(0), 0);
  return {sum, torch::where(is_rest, q * (1 - ratio), q - p)};
}

// `student`, `teacher`: logits.
Differed Differ(const Tensor& student, const Tensor& teacher, const Tensor& tail, Divergence divergence,
                const DistillationOptions& options) {
  const double t = options.temperature, skew = options.skew.value_or(kDefaultSkew);
  if (divergence == Divergence::kMse) {
    const Tensor difference = (student - teacher) / t;
    const double of_token = 1.0 / static_cast<double>(student.size(1));
    return {difference.square().sum(torch::kFloat64) * of_token, difference * (2 * of_token)};
  }
  const Tensor log_q = at::log_softmax(student / t, 1);
  if (divergence == Divergence::kTopKKl) return TopKKl(teacher, tail, log_q, options);
  const Tensor log_p = at::log_softmax(teacher / t, 1);
  switch (divergence) {
    case Divergence::kReverseKl:
      return FromStudent(log_q, log_p, 0);
    case Divergence::kJensenShannon:
      return JensenShannon(log_p, log_q, options.beta);
    case Divergence::kSkewedKl:
      return Skewed(log_p, log_q, skew);
    case Divergence::kSkewedReverseKl:
      return FromStudent(log_q, torch::logaddexp(log_q + std::log(skew), log_p + std::log1p(-skew)), skew);
    case Divergence::kTotalVariation:
      return TotalVariation(log_p.exp(), log_q.exp());
    default:
      return {(log_p.exp() * (log_p - log_q)).sum(torch::kFloat64), log_q.exp() - log_p.exp()};
  }
}

}  // namespace

ChunkSums SweepTensors(const ChunkProducts& student, const ChunkProducts& teacher, const Tensor& labels,
                       const DistillationOptions& options, Divergence divergence, bool wants_gradient) {
  const double alpha = options.alpha, t = options.temperature;
  const Tensor logits = Logits(student), log_s = at::log_softmax(logits, 1);
  // A label beyond the vocabulary, which no check may wait for on a GPU, makes both no number.
  const Tensor column = labels.unsqueeze(1), label = column.clamp(0, logits.size(1) - 1);
  const Tensor has_label = column.ge(0).to(logits.scalar_type()).masked_fill_(column.ge(logits.size(1)), NAN);
  ChunkSums sums{.divergence = torch::zeros({}, logits.options().dtype(torch::kFloat64)),
                 .ce = -log_s.gather(1, label).where(column.ge(0), 0).mul(has_label).sum(torch::kFloat64)};
  Tensor gradient = log_s.exp().mul_(1 - alpha).mul_(has_label);
  gradient.scatter_add_(1, label, has_label * (alpha - 1));
  if (divergence != Divergence::kNone) {
    const Tensor tail = teacher.tail.defined() ? teacher.tail.unsqueeze(1) : teacher.tail;
    const Differed differed = Differ(logits, Logits(teacher), tail, divergence, options);
    sums.divergence = differed.sum;
    gradient.add_(differed.gradient, alpha * t);
  }
  if (!wants_gradient) return sums;
  const double scale = student.scaling.scale * options.gradient_scale, softcap = student.scaling.softcap;
  if (softcap > 0) gradient.mul_(1 - (logits / softcap).square());
  student.gradient().copy_(scale != 1 ? gradient * scale : gradient);
  return sums;
}

}  // namespace distill
