// Asks a model folder one question.
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "examples/llm/options.h"

namespace distill {

// The answer to flags.prompt by the model in flags.generate, as text.
[[nodiscard]] absl::StatusOr<std::string> Answer(const LlmCommand& command, c10::Device device);

}  // namespace distill
