#include <cmath>

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

Differed Differ(const Tensor& log_p, const Tensor& log_q, Divergence divergence, double beta) {
  const Tensor p = log_p.exp(), q = log_q.exp();
  if (divergence == Divergence::kForwardKl) return {(p * (log_p - log_q)).sum(torch::kFloat64), q - p};
  // From the student to `log_m`: the teacher, or the mixture.
  const auto from_student = [&](const Tensor& log_m) -> Differed {
    const Tensor ratio = log_q - log_m, row_sums = (q * ratio).sum(1, /*keepdim=*/true);
    return {row_sums.sum(torch::kFloat64), q * (ratio - row_sums)};
  };
  if (divergence == Divergence::kReverseKl) return from_student(log_p);
  const Tensor log_m = torch::logaddexp(log_p + std::log(beta), log_q + std::log1p(-beta));
  const Differed student = from_student(log_m);
  const Tensor teacher = (p * (log_p - log_m)).sum(torch::kFloat64);
  return {beta * teacher + (1 - beta) * student.sum, (1 - beta) * student.gradient};
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
    const Differed differed =
        Differ(at::log_softmax(Logits(teacher) / t, 1), at::log_softmax(logits / t, 1), divergence, options.beta);
    sums.divergence = differed.sum;
    gradient.add_(differed.gradient, alpha * t);
  }
  if (!wants_gradient) return sums;
  const double scale = student.scaling.scale * options.gradient_scale, softcap = student.scaling.softcap;
  if (softcap > 0) gradient.mul_(1 - (logits / softcap).square());
  student.values.copy_(scale != 1 ? gradient * scale : gradient);
  return sums;
}

}  // namespace distill
