// What a loss that takes states and heads (loss/distillation_loss.h) is given of two language models.
#pragma once

#include "libdistill/loss/distillation_loss.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/task/teacher.h"

namespace distill {

// The student's side of a loss but its states: head, scaling of logits, and, where gradients are taken, what its sink
// offers for the head's gradient.
void SetStudentHead(const LanguageModel& student, DistillationInputs& inputs);
// What a teacher answered, with words.
void SetTeacherHead(const TeacherAnswer& answer, DistillationInputs& inputs);

}  // namespace distill
