// What a student's states within the model cost beside its teacher's: the squared difference, after a projection that
// is learnt, since the widths may differ (Romero et al. 2015, "FitNets"; Jiao et al. 2020, "TinyBERT", equation 8).
#pragma once

#include <torch/types.h>

namespace distill {

// The sum over N tokens of mean((s P^T - t)^2) over the teacher's numbers: student [N, H], projection [G, H], teacher
// [N, G] -> scalar, float32 or wider. Differentiable once, in student and projection. The differences of some hundred
// tokens are alive at one time, and nothing is kept for the backward pass but what came in.
torch::Tensor StateMatchLoss(const torch::Tensor& student, const torch::Tensor& projection,
                             const torch::Tensor& teacher);
// The same in plain tensor operations.
torch::Tensor StateMatchReference(const torch::Tensor& student, const torch::Tensor& projection,
                                  const torch::Tensor& teacher);

}  // namespace distill
