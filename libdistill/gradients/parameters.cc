#include "libdistill/gradients/parameters.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "libdistill/tensor/convert.h"

namespace distill {

torch::Tensor TrainedParameter::Active(const torch::Tensor& like) const {
  if (like.dim() == 0 || active_rows == like.size(0)) return like;
  return like.narrow(0, 0, active_rows);
}

absl::StatusOr<std::vector<TrainedParameter>> CollectParameters(const torch::nn::Module& module,
                                                                const std::map<std::string, int64_t>& active_rows) {
  std::vector<TrainedParameter> parameters;
  std::set<const c10::TensorImpl*> seen;
  size_t restricted = 0;
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& tensor = item.value();
    if (!tensor.requires_grad()) continue;
    // A tensor that two modules share is trained once, by its first name.
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    const torch::Dtype type = tensor.scalar_type();
    if (type != torch::kFloat32 && type != torch::kBFloat16 && type != torch::kFloat16) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", item.key(), " is of type ", c10::toString(type),
                                                     "; training takes float32, bfloat16 and float16"));
    }
    TrainedParameter parameter{item.key(), tensor, tensor.dim() >= 2, tensor.dim() == 0 ? 1 : tensor.size(0)};
    if (const auto found = active_rows.find(item.key()); found != active_rows.end()) {
      if (found->second < 0 || found->second > parameter.active_rows) {
        return absl::InvalidArgumentError(absl::StrCat("parameter ", item.key(), " of shape ",
                                                       ShapeToString(tensor.sizes()), " has no ", found->second,
                                                       " rows to train"));
      }
      parameter.active_rows = found->second;
      ++restricted;
    }
    parameters.push_back(std::move(parameter));
  }
  if (parameters.empty()) return absl::InvalidArgumentError("the module has no parameter that requires a gradient");
  if (restricted != active_rows.size()) {
    return absl::InvalidArgumentError("the task's TrainedRows name a parameter that the module does not train");
  }
  return parameters;
}

absl::Status AssignGroups(const ParameterGroups& groups, std::vector<TrainedParameter>& parameters) {
  std::set<int64_t> found;
  for (TrainedParameter& parameter : parameters) {
    parameter.group = GroupOf(groups, parameter.name);
    found.insert(parameter.group);
  }
  for (size_t group = 0; group < groups.size(); ++group) {
    if (found.count(static_cast<int64_t>(group)) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("parameter_groups: no trained parameter is '", groups[group].pattern,
                                                   "' or is left to it; the ", "first of ", parameters.size(), " is ",
                                                   parameters[0].name));
  }
  return absl::OkStatus();
}

absl::Status RequireOneType(const std::vector<TrainedParameter>& parameters) {
  for (const TrainedParameter& parameter : parameters) {
    if (parameter.tensor.scalar_type() == parameters[0].tensor.scalar_type()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("zero_stage: parameters of one type can be sharded, and ", parameters[0].name, " is ",
                     c10::toString(parameters[0].tensor.scalar_type()), ", ", parameter.name, " ",
                     c10::toString(parameter.tensor.scalar_type()), "; make them alike, or set zero_stage to 0"));
  }
  return absl::OkStatus();
}

std::vector<int64_t> ElementsOf(const std::vector<TrainedParameter>& parameters) {
  std::vector<int64_t> elements;
  for (const TrainedParameter& parameter : parameters) elements.push_back(parameter.tensor.numel());
  return elements;
}

}  // namespace distill
