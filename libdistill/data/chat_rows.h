// One row of a chat file to its messages.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/jsonl.h"
#include "libdistill/text/chat_template.h"

namespace distill {

// `messages` (role, content) or `conversations` (from, value). InvalidArgument: neither, or a message that lacks
// something, or whose role is unknown.
[[nodiscard]] absl::StatusOr<std::vector<ChatMessage>> ParseChatRow(const JsonValue& row);

// Whether the assistant says anything in it.
bool HasAnswer(const std::vector<ChatMessage>& messages);

}  // namespace distill
