#include "libdistill/task/head_inputs.h"

#include <memory>
#include <variant>

#include "libdistill/nn/gradient_sink.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {

void SetStudentHead(const LanguageModel& student, DistillationInputs& inputs) {
  const torch::Tensor weight = student.head_weight();
  inputs.student_weight = weight;
  inputs.student_bias = student.head_bias();
  inputs.student_logits = {.scale = student.logit_scale(), .softcap = student.logit_softcap()};
  const auto* user = dynamic_cast<const GradientSinkUser*>(&student);
  if (user == nullptr || user->gradient_sink() == nullptr || !torch::GradMode::is_enabled()) return;
  const std::shared_ptr<GradientSink> sink = user->gradient_sink();
  inputs.student_weight_gradient = sink->Borrow(weight);
  if (!inputs.student_weight_gradient.defined()) {
    inputs.student_weight_gradient = sink->BorrowSum(weight);
    inputs.adds_student_weight_gradient = inputs.student_weight_gradient.defined();
  }
  if (!inputs.adds_student_weight_gradient && !sink->TakesWide(weight)) return;
  inputs.take_student_weight_gradient = [sink, weight](const torch::Tensor& gradient) {
    sink->AddWide(weight, gradient);
  };
}

void SetTeacherWords(const TeacherAnswer& answer, DistillationInputs& inputs) {
  const auto here = [device = inputs.labels.device()](const torch::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device) : tensor;
  };
  if (const auto* head = std::get_if<TeacherHead>(&answer.words)) {
    inputs.teacher_hidden = here(head->input);
    inputs.teacher_weight = here(head->weight);
    inputs.teacher_bias = here(head->bias);
    inputs.teacher_logits = head->scaling;
  } else if (const auto* logits = std::get_if<TeacherLogits>(&answer.words)) {
    inputs.teacher_values = here(logits->values);
  } else if (const auto* top = std::get_if<TeacherTopK>(&answer.words)) {
    inputs.teacher_values = here(top->values);
    inputs.teacher_ids = here(top->ids);
  } else {
    throw StatusError(absl::InvalidArgumentError("the teacher was asked for words, and answered without any"));
  }
}

}  // namespace distill
