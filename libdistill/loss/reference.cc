#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/inputs.h"

namespace distill {
namespace {

using torch::Tensor;

// [N, V] in float32, or float64 for float64 inputs.
Tensor Logits(const Tensor& hidden, const Tensor& weight, const Tensor& bias, int64_t vocabulary) {
  Tensor logits = hidden.matmul(weight.narrow(0, 0, vocabulary).t());
  logits = logits.to(at::promote_types(logits.scalar_type(), torch::kFloat32));
  return bias.defined() ? logits + bias.narrow(0, 0, vocabulary) : logits;
}

}  // namespace

DistillationSums ReferenceDistillationLoss(const DistillationInputs& inputs, const DistillationOptions& options) {
  const int64_t vocabulary = CheckInputs(inputs, options);
  const double t = options.temperature;
  const Tensor student = Logits(inputs.student_hidden, inputs.student_weight, inputs.student_bias, vocabulary);
  const Tensor ce = -torch::log_softmax(student, 1).gather(1, inputs.labels.unsqueeze(1)).sum();
  if (!inputs.teacher_hidden.defined()) return {ce, torch::zeros_like(ce), ce.detach()};
  const Tensor teacher = Logits(inputs.teacher_hidden, inputs.teacher_weight, inputs.teacher_bias, vocabulary).detach();
  const Tensor log_p = torch::log_softmax(teacher / t, 1), log_q = torch::log_softmax(student / t, 1);
  const Tensor kl = (log_p.exp() * (log_p - log_q)).sum() * (t * t);
  return {options.alpha * kl + (1 - options.alpha) * ce, kl.detach(), ce.detach()};
}

}  // namespace distill
