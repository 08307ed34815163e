#include "libdistill/loss/inputs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "libdistill/core/description.h"

namespace distill {
namespace {

void CheckSide(const char* side, const torch::Tensor& hidden, const torch::Tensor& weight, const torch::Tensor& bias,
               int64_t tokens) {
  TORCH_CHECK(hidden.defined() && hidden.dim() == 2, side, "_hidden must be [N, H]");
  TORCH_CHECK(weight.defined() && weight.dim() == 2, side, "_weight must be [V, H]");
  TORCH_CHECK(hidden.size(0) == tokens, side, "_hidden has ", hidden.size(0), " tokens, labels have ", tokens);
  TORCH_CHECK(hidden.size(1) == weight.size(1), side, "_hidden ", hidden.sizes(), " and ", side, "_weight ",
              weight.sizes(), " differ in H");
  TORCH_CHECK(hidden.scalar_type() == weight.scalar_type(), side, "_hidden is ", hidden.scalar_type(), ", ", side,
              "_weight ", weight.scalar_type());
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)), side, "_bias ", bias.sizes(),
              " does not fit ", side, "_weight ", weight.sizes());
}

// On a GPU nobody may wait for an answer: there such a label makes loss and gradient no number (sweep_device.cuh).
void CheckLabels(const torch::Tensor& labels, int64_t vocabulary) {
  if (!labels.is_cpu() || labels.numel() == 0) return;
  const int64_t largest = labels.max().item<int64_t>();
  TORCH_CHECK(largest < vocabulary, "label ", largest, " at token ", labels.argmax().item<int64_t>(),
              " is no word of a vocabulary of ", vocabulary, " (words are counted from 0; below 0: no label)");
}

void CheckScaling(const char* side, const LogitScaling& scaling) {
  TORCH_CHECK(std::isfinite(scaling.scale) && scaling.scale != 0, side, "_logits: a scale of ", scaling.scale);
  TORCH_CHECK(std::isfinite(scaling.softcap) && scaling.softcap >= 0, side, "_logits: a softcap of ", scaling.softcap);
}

}  // namespace

int64_t CheckInputs(const DistillationInputs& inputs, const DistillationOptions& options) {
  const absl::Status good = CheckOptions(options);
  TORCH_CHECK(good.ok(), std::string(good.message()));
  TORCH_CHECK(inputs.labels.defined() && inputs.labels.dim() == 1 && inputs.labels.scalar_type() == torch::kInt64,
              "labels must be int64 [N]");
  CheckScaling("student", inputs.student_logits);
  CheckScaling("teacher", inputs.teacher_logits);
  const int64_t tokens = inputs.labels.size(0);
  CheckSide("student", inputs.student_hidden, inputs.student_weight, inputs.student_bias, tokens);
  if (const torch::Tensor& memory = inputs.student_weight_gradient; memory.defined()) {
    const torch::Tensor& weight = inputs.student_weight;
    const bool fits = memory.sizes() == weight.sizes() && memory.is_contiguous() &&
                      memory.device() == weight.device() &&
                      memory.scalar_type() == at::promote_types(weight.scalar_type(), torch::kFloat32);
    TORCH_CHECK(fits, "student_weight_gradient ", memory.sizes(), " of ", memory.scalar_type(),
                " does not fit student_weight ", weight.sizes(), " of ", weight.scalar_type());
  }
  TORCH_CHECK(!inputs.adds_student_weight_gradient ||
                  (inputs.student_weight_gradient.defined() && inputs.take_student_weight_gradient),
              "adds_student_weight_gradient without student_weight_gradient and what takes it");
  int64_t rows = inputs.student_weight.size(0);
  if (inputs.teacher_hidden.defined()) {
    CheckSide("teacher", inputs.teacher_hidden, inputs.teacher_weight, inputs.teacher_bias, tokens);
    rows = std::min(rows, inputs.teacher_weight.size(0));
  } else {
    TORCH_CHECK(options.alpha == 0, "alpha is ", options.alpha, ", but there is no teacher");
  }
  TORCH_CHECK(rows > 0, "a head of no rows");
  TORCH_CHECK(options.vocabulary >= 0 && options.vocabulary <= rows, "a vocabulary of ", options.vocabulary,
              " does not fit heads of ", rows, " rows");
  const int64_t vocabulary = options.vocabulary > 0 ? options.vocabulary : rows;
  CheckLabels(inputs.labels, vocabulary);
  return vocabulary;
}

Divergence DivergenceOf(const DistillationInputs& inputs, const DistillationOptions& options) {
  if (!inputs.teacher_hidden.defined()) return Divergence::kNone;
  if (options.beta == 0) return Divergence::kForwardKl;
  return options.beta == 1 ? Divergence::kReverseKl : Divergence::kJensenShannon;
}

}  // namespace distill
