// Training some of a module's parameters: the others are frozen, and cost neither gradients nor an optimizer's state
// nor communication, and what lies below the lowest one that is trained no backward pass.
//
//   DISTILL_ASSIGN_OR_RETURN(const auto patterns, ReadYamlList("spectrum.yaml", kUnfrozenParameters));
//   DISTILL_RETURN_IF_ERROR(UnfreezeOnly(patterns, *student));          // before Trainer::Create
#pragma once

#include <vector>

#include <torch/nn/module.h>

#include "absl/status/status.h"
#include "libdistill/store/yaml_list.h"

namespace distill {

// The key of Spectrum's files (Hartford et al. 2024, arXiv 2406.06623).
inline constexpr char kUnfrozenParameters[] = "unfrozen_parameters";

// From now on the parameters in whose name a pattern is found require gradients, and no others. Patterns are regular
// expressions, as Python's re.search takes them: "model.layers.3.mlp" is found in each name that has it, and
// "^model.norm.weight$" is one name. A head that is the embedding's table has a second name, "lm_head.weight". Ranks
// must call it alike. InvalidArgument, with its place: a pattern that is no regular expression, or that is found in no
// name. After an error the parameters are as they were.
[[nodiscard]] absl::Status UnfreezeOnly(const std::vector<YamlItem>& patterns, torch::nn::Module& module);

}  // namespace distill
