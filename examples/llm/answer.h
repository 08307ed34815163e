// Asks a model folder one question.
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "libdistill/config/command_line.h"

namespace distill {

// The answer to flags.prompt by the model in flags.generate, as text.
[[nodiscard]] absl::StatusOr<std::string> Answer(const CommandLine& command, c10::Device device);

}  // namespace distill
