// Logit distillation without logits in memory: hidden states and heads go in, sums of losses come out.
//
//   alpha * T^2 * divergence(teacher, student) + (1 - alpha) * CE     (Hinton, Vinyals, Dean 2015, section 2)
//
// both distributions of the divergence at temperature T; CE at temperature 1. The divergence is one of eight
// (loss/divergence.h): KL, reverse KL and generalised Jensen-Shannon (Agarwal et al. 2024, "On-Policy Distillation of
// Language Models", equation 1), skewed KL and skewed reverse KL (Ko et al. 2024, "DistiLLM", section 3.1), total
// variation (Wen et al. 2023, "f-Divergence Minimization for Sequence-Level Knowledge Distillation"), the mean squared
// error of logits (Kim et al. 2021), and the KL of the teacher's likeliest tokens and all others together. Sums over
// tokens, not means: the caller divides by the number of loss tokens of the whole step, over all ranks. docs/losses.md
// has the formulas and the derivation of the gradients.
//
// The teacher comes in one of three forms: hidden states with a head, logits, or the logits of its K likeliest tokens
// (top-k). Of the last, with S the K ids of a token, two divergences are defined: the forward KL,
//
//   sum over v in S of p_v (log p_v - log q_v),   p = softmax over S of values / T,   q = softmax over V of student / T
//
// for which the teacher's probability of all other tokens is taken to be 0 (as DistillKit's sparse KL has it, missing:
// zero), and topk_kl, for which the values are log-probabilities, T is 1, and the other tokens have what is left of 1.
#pragma once

#include <functional>

#include <torch/types.h>

#include "libdistill/loss/distillation_options.h"

namespace distill {

// From what a head gives, x = h W^T + bias, to logits: softcap * tanh(scale * x / softcap); scale * x where it is 0.
struct LogitScaling {
  double scale = 1.0;
  double softcap = 0.0;
};

// N loss tokens, Hs and Ht hidden sizes, Vs and Vt head rows, K ids of a token. Without any of the teacher's tensors:
// cross-entropy alone (alpha must be 0).
struct DistillationInputs {
  torch::Tensor student_hidden;  // [N, Hs]
  torch::Tensor student_weight;  // [Vs, Hs]
  torch::Tensor student_bias;    // [Vs] or undefined
  torch::Tensor teacher_hidden;  // [N, Ht], or undefined: another form, or no teacher
  torch::Tensor teacher_weight;  // [Vt, Ht]
  torch::Tensor teacher_bias;    // [Vt] or undefined
  torch::Tensor labels;          // int64 [N], each within the vocabulary, or below 0: no CE there
  LogitScaling student_logits = {}, teacher_logits = {};  // of the heads
  // Instead of the teacher's states and head, in any floating type. Finite: a value that is not makes the loss so.
  // Without teacher_ids: its logits, [N, Vt]. With them: of K of its tokens, [N, K], logits or log-probabilities, which
  // give the same p; for topk_kl log-probabilities alone. There a value of minus infinity is a probability of 0.
  torch::Tensor teacher_values = {};
  // int64 [N, K]: which tokens, each once a row. Below 0, or not in the vocabulary: left out, as if the teacher had not
  // named it. Each row keeps one at least (on a GPU, where nobody waits to learn it, one that does not makes the loss
  // no number).
  torch::Tensor teacher_ids = {};
  // Memory for the gradient of student_weight, [Vs, Hs] and contiguous, in float32 (float64 for float64 inputs), which
  // holds anything; undefined: the loss takes its own. Nobody else may write to it until the backward pass is over.
  torch::Tensor student_weight_gradient = {};
  // That memory holds a sum, of earlier micro-batches, say: the gradient is added to it when the loss is taken, times
  // gradient_scale, with which the backward pass must then begin, within 1e-6 (it throws otherwise; on a GPU, where
  // nobody waits to learn it, it is taken as said). Wants take_student_weight_gradient, which is given the sum.
  bool adds_student_weight_gradient = false;
  // Where it is set, the backward pass gives it the gradient of student_weight, in float32 (or float64), and autograd
  // none: that would be of student_weight's own type, rounded to bfloat16, say.
  std::function<void(const torch::Tensor& gradient)> take_student_weight_gradient = nullptr;
};

struct DistillationSums {
  torch::Tensor loss;        // scalar with gradient into student_hidden, student_weight and student_bias
  torch::Tensor divergence;  // sum of T^2 * divergence, detached; 0 without a teacher
  torch::Tensor ce;          // sum of CE where there is a label, detached
};

// The chunked one. Throws c10::Error on shapes and options
// that do not fit; c10::ValueError where the teacher's values do not, or are top-k and the divergence is not defined
// for them.
DistillationSums DistillationLoss(const DistillationInputs& inputs, const DistillationOptions& options);

// The plain one, by whole logits and torch's own operations: the reference that tests compare with.
DistillationSums ReferenceDistillationLoss(const DistillationInputs& inputs, const DistillationOptions& options);

// The third loss of DistilBERT (Sanh et al. 2019, "DistilBERT, a distilled version of BERT", section 2): hidden states
// of student and teacher are to point the same way. The sum over tokens of 1 - cos(student, teacher), as torch's
// cosine_embedding_loss computes it; both [N, H]. A scalar in float32 (float64 for float64 states) with gradient into
// `student`; `teacher` is taken as a constant.
torch::Tensor CosineLoss(const torch::Tensor& student, const torch::Tensor& teacher);

}  // namespace distill
