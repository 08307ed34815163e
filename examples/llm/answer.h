// Asks a model folder questions.
#pragma once

#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "examples/llm/options.h"

namespace distill {

// The answers to flags.prompt and flags.prompts by the model in flags.generate, as the flags say: on stdout, or in the
// file flags.answers.
[[nodiscard]] absl::Status AnswerPrompts(const LlmCommand& command, c10::Device device);

}  // namespace distill
