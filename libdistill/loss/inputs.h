// What both distillation losses ask of their inputs; inside loss/ only.
#pragma once

#include <cstdint>

#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/sweep.h"

namespace distill {

enum class TeacherForm { kNone, kStates, kLogits, kTopK };

// By what is there; CheckInputs says whether it fits.
TeacherForm FormOf(const DistillationInputs& inputs);

// The number of head rows that take part. Throws c10::Error on shapes, types and options that do not fit.
int64_t CheckInputs(const DistillationInputs& inputs, const DistillationOptions& options);

// The one that is asked for; kNone without a teacher.
Divergence DivergenceOf(const DistillationInputs& inputs, const DistillationOptions& options);

}  // namespace distill
