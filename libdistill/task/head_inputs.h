// What the loss of logits (loss/distillation_loss.h) is given of a student and a teacher.
#pragma once

#include "libdistill/loss/distillation_loss.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/task/teacher.h"

namespace distill {

// The student's side of a loss but its states: head, scaling of logits, and, where gradients are taken, what its sink
// offers for the head's gradient.
void SetStudentHead(const LanguageModel& student, DistillationInputs& inputs);
// What a teacher answered, with words, on the device of inputs.labels. Throws StatusError, InvalidArgument, where there
// are none.
void SetTeacherWords(const TeacherAnswer& answer, DistillationInputs& inputs);

}  // namespace distill
