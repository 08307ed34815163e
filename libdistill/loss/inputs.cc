#include "libdistill/loss/inputs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "libdistill/core/description.h"
#include "libdistill/loss/chunk_products.h"

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

// Which divergences top-k values allow.
void CheckTopK(const torch::Tensor& values, const torch::Tensor& ids, const DistillationOptions& options) {
  const Divergence chosen = ChosenDivergence(options);
  if (chosen == Divergence::kTopKKl) {
    // At any other temperature the tail's share depends on how it is spread over its tokens.
    TORCH_CHECK_VALUE(options.temperature == 1, "temperature is ", options.temperature,
                      ", but the teacher gives top-k values, whose tail has a known probability at temperature 1 alone:"
                      " set temperature to 1, or take a teacher that gives all logits");
    return CheckMass(values.masked_fill(ids.lt(0), -INFINITY));
  }
  TORCH_CHECK_VALUE(
      chosen == Divergence::kForwardKl, options.divergence ? "divergence is " : "beta is ",
      options.divergence ? FieldText(options.divergence) : FieldText(options.beta),
      ", but the teacher gives top-k values, of which only KL(teacher, student) is defined, and topk_kl: ",
      options.divergence ? "set divergence to kl or topk_kl" : "set beta to 0",
      ", or take a teacher that gives all logits");
}

// [N, Vt] of logits, or [N, K] of top-k values with their ids.
void CheckValues(const DistillationInputs& inputs, const DistillationOptions& options) {
  const torch::Tensor &values = inputs.teacher_values, &ids = inputs.teacher_ids;
  TORCH_CHECK_VALUE(!inputs.teacher_hidden.defined(), "the teacher has states and values: give one of them");
  TORCH_CHECK_VALUE(values.defined(), "teacher_ids without teacher_values, whose ids they would be");
  TORCH_CHECK_VALUE(values.dim() == 2 && values.is_floating_point(),
                    "teacher_values must be floating-point logits [N, V], or [N, K] with teacher_ids");
  TORCH_CHECK_VALUE(values.size(0) == inputs.labels.size(0), "teacher_values has ", values.size(0),
                    " tokens, labels have ", inputs.labels.size(0));
  TORCH_CHECK_VALUE(values.size(1) > 0, "teacher_values has nothing for a token");
  if (!ids.defined()) return;
  TORCH_CHECK_VALUE(ids.scalar_type() == torch::kInt64 && ids.sizes() == values.sizes(), "teacher_ids must be int64 ",
                    values.sizes(), " as teacher_values, and are ", ids.scalar_type(), " ", ids.sizes());
  CheckTopK(values, ids, options);
}

// On a GPU nobody may wait for an answer: there such a token makes the loss no number (chunk_products.cc).
void CheckIds(const torch::Tensor& ids, int64_t vocabulary) {
  if (!ids.is_cpu() || ids.numel() == 0) return;
  const torch::Tensor names_any = ids.ge(0).logical_and(ids.lt(vocabulary)).any(1);
  TORCH_CHECK_VALUE(names_any.all().item<bool>(), "teacher_ids of token ",
                    names_any.to(torch::kInt64).argmin().item<int64_t>(), " has no id of a vocabulary of ", vocabulary);
}

}  // namespace

TeacherForm FormOf(const DistillationInputs& inputs) {
  if (inputs.teacher_ids.defined()) return TeacherForm::kTopK;
  if (inputs.teacher_values.defined()) return TeacherForm::kLogits;
  return inputs.teacher_hidden.defined() ? TeacherForm::kStates : TeacherForm::kNone;
}

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
  const TeacherForm form = FormOf(inputs);
  if (form == TeacherForm::kStates) {
    CheckSide("teacher", inputs.teacher_hidden, inputs.teacher_weight, inputs.teacher_bias, tokens);
    rows = std::min(rows, inputs.teacher_weight.size(0));
  } else if (form == TeacherForm::kNone) {
    TORCH_CHECK(options.alpha == 0, "alpha is ", options.alpha, ", but there is no teacher");
  } else {
    CheckValues(inputs, options);
    if (form == TeacherForm::kLogits) rows = std::min(rows, inputs.teacher_values.size(1));
  }
  TORCH_CHECK(rows > 0, "a head of no rows");
  TORCH_CHECK(options.vocabulary >= 0 && options.vocabulary <= rows, "a vocabulary of ", options.vocabulary,
              " does not fit heads of ", rows, " rows");
  const int64_t vocabulary = options.vocabulary > 0 ? options.vocabulary : rows;
  CheckLabels(inputs.labels, vocabulary);
  if (form == TeacherForm::kTopK) CheckIds(inputs.teacher_ids, vocabulary);
  return vocabulary;
}

Divergence DivergenceOf(const DistillationInputs& inputs, const DistillationOptions& options) {
  return FormOf(inputs) == TeacherForm::kNone ? Divergence::kNone : ChosenDivergence(options);
}

}  // namespace distill
