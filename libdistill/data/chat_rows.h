// One row of a chat file as messages.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/store/jsonl.h"
#include "libdistill/text/chat_template.h"

namespace distill {

// `messages` (role, content) or `conversations` (from, value). InvalidArgument: neither, or a message that lacks
// something, whose role is unknown, or that calls tools. An assistant's null is an empty text.
[[nodiscard]] absl::StatusOr<std::vector<ChatMessage>> ParseChatRow(const JsonValue& row);

// Whether the assistant says anything in it.
bool HasAnswer(absl::Span<const ChatMessage> messages);

}  // namespace distill
