// One row of a chat data set (docs/formats.md, "Chat rows").
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/text/conversation.h"

namespace distill {

// What a row says: its messages with all that stands in them, and what templates know of the rest (tools, documents,
// chat_template_kwargs). Roles get the names that templates have for them. InvalidArgument: a field that is missing or
// of another kind, an unknown role, parts of a message that are no texts.
[[nodiscard]] absl::StatusOr<Conversation> ParseChatRow(const JsonValue& row);

// Whether the row is a plain text, with 'text' and none of the columns of a conversation.
bool IsPlainText(const JsonValue& row);

// Adds the names of fields that neither libdistill reads nor the template's text names. `row` is a valid one.
void AddUnread(const JsonValue& row, absl::string_view template_text, std::set<std::string>& unread);

}  // namespace distill
