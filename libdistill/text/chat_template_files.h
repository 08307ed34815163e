// A chat template as files of a model folder: a student is saved with the template that it was trained with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/text/chat_template.h"

namespace distill {

// The files that make every program that opens a model folder with the tokenizer of `tokenizer_folder` take `chat`, by
// name: chat_template.jinja, and tokenizer_config.json where that has a template of its own (programs that do not know
// chat_template.jinja read it). Empty where the folder says the same already. Errors of reading the folder.
[[nodiscard]] absl::StatusOr<std::vector<std::pair<std::string, std::string>>> FilesOf(
    const ChatTemplate& chat, const std::string& tokenizer_folder);

}  // namespace distill
