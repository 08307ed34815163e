#include <algorithm>
#include <cmath>
#include <tuple>

#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/inputs.h"

namespace distill {
namespace {

using torch::Tensor;

// [N, V] in float32, or float64 for float64 inputs.
Tensor Logits(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const LogitScaling& scaling,
              int64_t vocabulary) {
  Tensor logits = hidden.matmul(weight.narrow(0, 0, vocabulary).t());
  logits = logits.to(at::promote_types(logits.scalar_type(), torch::kFloat32));
  if (bias.defined()) logits = logits + bias.narrow(0, 0, vocabulary);
  if (scaling.scale != 1) logits = logits * scaling.scale;
  return scaling.softcap > 0 ? scaling.softcap * torch::tanh(logits / scaling.softcap) : logits;
}

// Sum over tokens of KL(p || q), from logarithms.
Tensor Kl(const Tensor& log_p, const Tensor& log_q) { return (log_p.exp() * (log_p - log_q)).sum(); }

// Of a KL of which the mixture m holds `share` of the first distribution.
Tensor MixtureOf(const Tensor& log_a, const Tensor& log_b, double share) {
  return torch::logaddexp(log_a + std::log(share), log_b + std::log1p(-share));
}

Tensor SumOfDivergence(const Tensor& log_p, const Tensor& log_q, Divergence divergence,
                       const DistillationOptions& options) {
  const double beta = options.beta, skew = options.skew.value_or(kDefaultSkew);
  switch (divergence) {
    case Divergence::kReverseKl:
      return Kl(log_q, log_p);
    case Divergence::kJensenShannon: {
      const Tensor log_m = MixtureOf(log_p, log_q, beta);
      return beta * Kl(log_p, log_m) + (1 - beta) * Kl(log_q, log_m);
    }
    case Divergence::kSkewedKl:
      return Kl(log_p, MixtureOf(log_p, log_q, skew));
    case Divergence::kSkewedReverseKl:
      return Kl(log_q, MixtureOf(log_q, log_p, skew));
    case Divergence::kTotalVariation:
      return 0.5 * (log_p.exp() - log_q.exp()).abs().sum();
    default:
      return Kl(log_p, log_q);
  }
}

// Where `keeps`; minus infinity elsewhere.
Tensor Only(const Tensor& keeps, const Tensor& values) { return values.masked_fill(keeps.logical_not(), -INFINITY); }

// KL over the tokens that are not in the rest, and one more event: all of the rest. `log_p` and `log_q`: [N, V].
// `log_rest_p`: [N, 1], or undefined: what log_p says.
Tensor SumOfTopK(const Tensor& log_p, const Tensor& log_q, const Tensor& is_rest, const Tensor& log_rest_p) {
  const Tensor has_rest = is_rest.any(1, /*keepdim=*/true);
  const Tensor of_top = (log_p.exp() * (log_p - log_q)).masked_fill(is_rest, 0).sum();
  // Where there is no rest, all of the row, which is then left out: -inf would leave its mark on gradients.
  const Tensor counted = is_rest.logical_or(has_rest.logical_not());
  const Tensor rest_q = Only(counted, log_q).logsumexp({1}, /*keepdim=*/true);
  const Tensor rest_p = log_rest_p.defined() ? log_rest_p : Only(counted, log_p).logsumexp({1}, /*keepdim=*/true);
  const Tensor is_something = has_rest.logical_and(rest_p.ne(-INFINITY));
  return of_top + (rest_p.exp() * (rest_p - rest_q)).masked_fill(is_something.logical_not(), 0).sum();
}

// Of a teacher's logits, [N, V]. Those at the k-th largest are all among the top.
Tensor SumOfTopLogits(const Tensor& logits, const Tensor& log_q, const DistillationOptions& options) {
  const int64_t k = std::min(options.top_k_logits.value_or(kDefaultTopK), logits.size(1));
  const Tensor is_rest = logits.lt(std::get<0>(logits.topk(k, 1)).narrow(1, k - 1, 1));
  return SumOfTopK(torch::log_softmax(logits / options.temperature, 1), log_q, is_rest, Tensor());
}

// Of a teacher's log-probabilities of some tokens, [N, K], at temperature 1.
Tensor SumOfTopValues(const Tensor& values, const Tensor& ids, const Tensor& log_q,
                      const DistillationOptions& options) {
  const int64_t vocabulary = log_q.size(1);
  const Tensor wide = Only(ids.ge(0) & ids.lt(vocabulary), values.detach().to(log_q.scalar_type()));
  const Tensor given = torch::full_like(log_q.detach(), -INFINITY)
                           .scatter_reduce(1, ids.clamp(0, vocabulary - 1), wide, "amax", /*include_self=*/true);
  const int64_t k = std::min(options.top_k_logits.value_or(kDefaultTopK), vocabulary);
  const Tensor is_rest = given.lt(std::get<0>(given.topk(k, 1)).narrow(1, k - 1, 1)) | given.eq(-INFINITY);
  const Tensor unnamed = torch::log1p(-given.exp().sum(1, /*keepdim=*/true).clamp_max(1));
  const Tensor has_rest = is_rest.any(1, /*keepdim=*/true);
  const Tensor tail = unnamed.masked_fill(has_rest.logical_not(), -INFINITY);
  const Tensor log_sum = torch::logaddexp(given.logsumexp({1}, /*keepdim=*/true), tail);
  const Tensor rest = torch::logaddexp(Only(is_rest, given).logsumexp({1}, /*keepdim=*/true), tail) - log_sum;
  return SumOfTopK(given - log_sum, log_q, is_rest, rest);
}

// The same over the ids of each token alone, p being the softmax of their values.
Tensor SumOfNamed(const Tensor& values, const Tensor& ids, const Tensor& log_q, double temperature) {
  const int64_t vocabulary = log_q.size(1);
  const Tensor wide = values.detach().to(at::promote_types(values.scalar_type(), torch::kFloat32));
  const Tensor is_named = ids.ge(0) & ids.lt(vocabulary) & wide.ne(-INFINITY);
  const Tensor log_p = torch::log_softmax(wide.masked_fill(~is_named, -INFINITY) / temperature, 1);
  const Tensor difference = log_p - log_q.gather(1, ids.clamp(0, vocabulary - 1));
  return (log_p.exp() * difference.masked_fill(~is_named, 0)).sum();
}

// [N, V]; of a teacher's states, or as it gives them.
Tensor TeacherLogits(const DistillationInputs& inputs, int64_t vocabulary) {
  if (FormOf(inputs) == TeacherForm::kStates) {
    return Logits(inputs.teacher_hidden, inputs.teacher_weight, inputs.teacher_bias, inputs.teacher_logits, vocabulary)
        .detach();
  }
  const Tensor& values = inputs.teacher_values;
  return values.detach().narrow(1, 0, vocabulary).to(at::promote_types(values.scalar_type(), torch::kFloat32));
}

// Without T^2.
Tensor SumOverTokens(const DistillationInputs& inputs, const DistillationOptions& options, const Tensor& student) {
  const Divergence divergence = DivergenceOf(inputs, options);
  const double t = options.temperature;
  const Tensor log_q = torch::log_softmax(student / t, 1);
  if (FormOf(inputs) == TeacherForm::kTopK) {
    return divergence == Divergence::kTopKKl ? SumOfTopValues(inputs.teacher_values, inputs.teacher_ids, log_q, options)
                                             : SumOfNamed(inputs.teacher_values, inputs.teacher_ids, log_q, t);
  }
  const Tensor teacher = TeacherLogits(inputs, student.size(1));
  if (divergence == Divergence::kMse) return ((student - teacher) / t).square().mean(1).sum();
  if (divergence == Divergence::kTopKKl) return SumOfTopLogits(teacher, log_q, options);
  return SumOfDivergence(torch::log_softmax(teacher / t, 1), log_q, divergence, options);
}

}  // namespace

DistillationSums ReferenceDistillationLoss(const DistillationInputs& inputs, const DistillationOptions& options) {
  const int64_t vocabulary = CheckInputs(inputs, options);
  const double t = options.temperature;
  const Tensor student =
      Logits(inputs.student_hidden, inputs.student_weight, inputs.student_bias, inputs.student_logits, vocabulary);
  const Tensor labelled = inputs.labels.ge(0).nonzero().squeeze(1);
  const Tensor label = inputs.labels.index_select(0, labelled).unsqueeze(1);
  const Tensor ce = -torch::log_softmax(student.index_select(0, labelled), 1).gather(1, label).sum();
  if (FormOf(inputs) == TeacherForm::kNone) return {ce, torch::zeros_like(ce), ce.detach()};
  const Tensor of_tokens = SumOverTokens(inputs, options, student);
  const Tensor divergence = of_tokens * (t * t);
  return {options.alpha * divergence + (1 - options.alpha) * ce, divergence.detach(), ce.detach()};
}

}  // namespace distill
