#include <cmath>

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

Tensor SumOfDivergence(const Tensor& log_p, const Tensor& log_q, double beta) {
  if (beta == 0) return Kl(log_p, log_q);
  if (beta == 1) return Kl(log_q, log_p);
  const Tensor log_m = torch::logaddexp(log_p + std::log(beta), log_q + std::log1p(-beta));
  return beta * Kl(log_p, log_m) + (1 - beta) * Kl(log_q, log_m);
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

}  // namespace

DistillationSums ReferenceDistillationLoss(const DistillationInputs& inputs, const DistillationOptions& options) {
  const int64_t vocabulary = CheckInputs(inputs, options);
  const double t = options.temperature;
  const Tensor student =
      Logits(inputs.student_hidden, inputs.student_weight, inputs.student_bias, inputs.student_logits, vocabulary);
  const Tensor labelled = inputs.labels.ge(0).nonzero().squeeze(1);
  const Tensor label = inputs.labels.index_select(0, labelled).unsqueeze(1);
  const Tensor ce = -torch::log_softmax(student.index_select(0, labelled), 1).gather(1, label).sum();
  const TeacherForm form = FormOf(inputs);
  if (form == TeacherForm::kNone) return {ce, torch::zeros_like(ce), ce.detach()};
  const Tensor log_q = torch::log_softmax(student / t, 1);
  const Tensor of_tokens =
      form == TeacherForm::kTopK
          ? SumOfNamed(inputs.teacher_values, inputs.teacher_ids, log_q, t)
          : SumOfDivergence(torch::log_softmax(TeacherLogits(inputs, vocabulary) / t, 1), log_q, options.beta);
  const Tensor divergence = of_tokens * (t * t);
  return {options.alpha * divergence + (1 - options.alpha) * ce, divergence.detach(), ce.detach()};
}

}  // namespace distill
