// The third loss of DistilBERT (Sanh et al. 2019, "DistilBERT, a distilled version of BERT", section 2): hidden states
// of student and teacher are to point the same way.
#pragma once

#include <torch/types.h>

namespace distill {

// The sum over tokens of 1 - cos(student, teacher), as torch's cosine_embedding_loss computes it; both [N, H]. A scalar
// in float32 (float64 for float64 states) with gradient into `student`; `teacher` is taken as a constant.
torch::Tensor CosineLoss(const torch::Tensor& student, const torch::Tensor& teacher);

}  // namespace distill
