// One message of a conversation, out of a row of data.
#pragma once

#include "absl/status/statusor.h"
#include "libdistill/store/json_value.h"
#include "libdistill/text/conversation.h"

namespace distill {

// The forms of conversations differ in names only.
struct MessageForm {
  const char* list;
  const char* role;
  const char* content;
};
constexpr MessageForm kMessageForms[] = {
    {"messages", "role", "content"}, {"conversations", "from", "value"}, {"conversations", "role", "content"}};

// Null, or an empty list.
bool IsEmpty(const JsonValue& value);

// InvalidArgument: no object, a role or content that is missing or of another kind, an unknown role.
[[nodiscard]] absl::StatusOr<ChatMessage> ParseChatMessage(const JsonValue& json, const MessageForm& form);

}  // namespace distill
