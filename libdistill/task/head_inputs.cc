#include "libdistill/task/head_inputs.h"

#include <memory>

#include "libdistill/nn/gradient_sink.h"

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

void SetTeacherHead(const TeacherAnswer& answer, DistillationInputs& inputs) {
  inputs.teacher_hidden = answer.head_input;
  inputs.teacher_weight = answer.head_weight;
  inputs.teacher_bias = answer.head_bias;
  inputs.teacher_logits = answer.scaling;
}

}  // namespace distill
