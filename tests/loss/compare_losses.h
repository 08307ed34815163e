// Random inputs of DistillationLoss, and what it gives beside what the reference gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libdistill/loss/distillation_loss.h"

namespace distill::testing {

struct InputShape {
  int64_t tokens, student_hidden, teacher_hidden, student_rows, teacher_rows;
  bool has_bias = false;
};

// Normal deviates times `scale`, the same on every call; labels within the smaller head.
DistillationInputs MakeInputs(const InputShape& s, torch::Dtype dtype, torch::Device device, double scale = 1.0);

struct Result {
  DistillationSums sums;
  std::vector<torch::Tensor> gradients;  // hidden, weight, bias where there is one
};

using LossFunction = DistillationSums (*)(const DistillationInputs&, const DistillationOptions&);

// Forward and backward, of leaves of its own; `incoming`: what the backward pass begins with.
Result Evaluate(LossFunction loss, const DistillationInputs& inputs, const DistillationOptions& options,
                double incoming = 1.0);

DistillationInputs InFloat64(const DistillationInputs& inputs);

// The greatest difference, relative where there is something to relate it to.
double Error(const torch::Tensor& actual, const torch::Tensor& expected);

// The reference rounds as much as we do: what counts is to be as near to it, or to itself in float64.
void CheckSame(const DistillationInputs& inputs, const DistillationOptions& options, double tolerance);

// The divergence, and what it takes, for messages.
std::string NameOf(const DistillationOptions& options);

}  // namespace distill::testing
