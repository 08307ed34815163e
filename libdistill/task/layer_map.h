// Which layers of a student are compared with which of its teacher, as the option layer_map says it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

// Layers as LanguageModel::StatesAt counts them.
struct LayerPair {
  int64_t student = 0, teacher = 0;
};

// "1:2,2:4"; spaces may stand anywhere. Empty: layer i of the student's 1 .. S with the one as high in the teacher,
// round(i T / S), as Sun et al. 2019 ("Patient Knowledge Distillation", section 3.1) skip layers. InvalidArgument: no
// such text, or a layer that a model does not have.
[[nodiscard]] absl::StatusOr<std::vector<LayerPair>> ParseLayerMap(const std::string& text, int64_t student_layers,
                                                                   int64_t teacher_layers);

}  // namespace distill
