// The trained parameters of a module, and what the optimizer has to know of each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/statusor.h"
#include "libdistill/optim/parameter_groups.h"

namespace distill {

struct TrainedParameter {
  std::string name;
  torch::Tensor tensor;     // what forward passes use: float32, or the working copy in bfloat16 or float16
  bool decays = true;       // weight decay: not on norms and biases (fewer than two dimensions)
  int64_t active_rows = 0;  // rows beyond are never changed
  int64_t group = -1;       // of ParameterGroups; -1: none

  // The trained part of a tensor of this parameter's shape.
  torch::Tensor Active(const torch::Tensor& like) const;
};

// Those that require gradients, in the order of the module. InvalidArgument: none at all, a type other than float32,
// bfloat16 and float16, or a name in `active_rows` that the module lacks.
[[nodiscard]] absl::StatusOr<std::vector<TrainedParameter>> CollectParameters(
    const torch::nn::Module& module, const std::map<std::string, int64_t>& active_rows);

// Gives each its group. InvalidArgument: a group without a parameter.
[[nodiscard]] absl::Status AssignGroups(const ParameterGroups& groups, std::vector<TrainedParameter>& parameters);

// InvalidArgument: parameters of several types, of which two are named.
[[nodiscard]] absl::Status RequireOneType(const std::vector<TrainedParameter>& parameters);

// Number of elements of each.
std::vector<int64_t> ElementsOf(const std::vector<TrainedParameter>& parameters);

}  // namespace distill
