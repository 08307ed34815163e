// llama.cpp's names of a decoder's tensors, and those of transformers; inside store/ only.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace distill {

// InvalidArgument: the names of such models are not known here. The message says what to take instead.
[[nodiscard]] absl::Status CheckGgufArchitecture(absl::string_view architecture);

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight", in a model of this architecture. One that is not
// known stays as it is.
std::string TransformersName(absl::string_view architecture, const std::string& name);

// Whether llama.cpp's converter alternates the rows of a head's two halves in a tensor of this name: those that are
// rotated together lie beside each other.
bool HasAlternatingRows(absl::string_view architecture, const std::string& name);

// Whether the converter adds 1 to a tensor of this name: the weight of a norm that transformers has as 1 + weight.
bool IsOneAbove(absl::string_view architecture, const std::string& name);

}  // namespace distill
