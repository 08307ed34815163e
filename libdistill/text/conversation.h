// A conversation as a data set holds it, and as a chat template sees it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/jinja/value.h"
#include "libdistill/store/json_value.h"

namespace distill {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
  bool has_loss = true;  // of an assistant's: false where it is context alone
  // What else templates may read of it: tool_calls, reasoning_content, name, ... A member "content" stands in place of
  // `content`: null, or a list of parts.
  std::vector<std::pair<std::string, JsonValue>> fields = {};
};

struct Conversation {
  std::vector<ChatMessage> messages;
  // Variables of the template besides: tools, documents, enable_thinking, ...
  std::vector<std::pair<std::string, JsonValue>> fields = {};
};

// The variables of a template: messages, the conversation's fields, and add_generation_prompt. As transformers does,
// `tools` and `documents` are none where nothing says otherwise. InvalidArgument: too large for a template.
[[nodiscard]] absl::StatusOr<std::vector<std::pair<std::string, jinja::Value>>> TemplateVariables(
    const Conversation& conversation, bool add_generation_prompt);

}  // namespace distill
