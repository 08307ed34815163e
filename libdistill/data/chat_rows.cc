#include "libdistill/data/chat_rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// The two forms differ in names only.
struct Form {
  const char* list;
  const char* role;
  const char* content;
};
constexpr Form kForms[] = {{"messages", "role", "content"}, {"conversations", "from", "value"}};

absl::StatusOr<std::string> NormalRole(const std::string& role) {
  static constexpr std::pair<const char*, const char*> kRoles[] = {
      {"system", "system"}, {"user", "user"},         {"human", "user"},      {"assistant", "assistant"},
      {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"model", "assistant"}, {"tool", "tool"}};
  for (const auto& [name, normal] : kRoles) {
    if (role == name) return std::string(normal);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown role '", role, "'; known: system, user, human, assistant, gpt, chatgpt, model, tool"));
}

absl::StatusOr<std::string> TextOf(const JsonValue& message, const char* name) {
  const JsonValue* value = message.Find(name);
  if (value == nullptr) return absl::InvalidArgumentError(absl::StrCat("has no '", name, "'"));
  if (value->kind != JsonValue::Kind::kString) {
    return absl::InvalidArgumentError(absl::StrCat("its '", name, "' is no string"));
  }
  return value->text;
}

absl::StatusOr<ChatMessage> ParseMessage(const JsonValue& json, const Form& form) {
  if (json.kind != JsonValue::Kind::kObject) return absl::InvalidArgumentError("is no object");
  ChatMessage message;
  DISTILL_ASSIGN_OR_RETURN(const std::string role, TextOf(json, form.role));
  DISTILL_ASSIGN_OR_RETURN(message.role, NormalRole(role));
  DISTILL_ASSIGN_OR_RETURN(message.content, TextOf(json, form.content));
  return message;
}

}  // namespace

absl::StatusOr<std::vector<ChatMessage>> ParseChatRow(const JsonValue& row) {
  for (const Form& form : kForms) {
    const JsonValue* list = row.Find(form.list);
    if (list == nullptr) continue;
    if (list->kind != JsonValue::Kind::kArray) {
      return absl::InvalidArgumentError(absl::StrCat("'", form.list, "' is no list"));
    }
    std::vector<ChatMessage> messages;
    for (const JsonValue& item : list->items) {
      absl::StatusOr<ChatMessage> message = ParseMessage(item, form);
      if (!message.ok()) return Annotate(message.status(), absl::StrCat("message ", messages.size() + 1));
      messages.push_back(*std::move(message));
    }
    return messages;
  }
  return absl::InvalidArgumentError("the row has neither 'messages' (role, content) nor 'conversations' (from, value)");
}

bool HasAnswer(const std::vector<ChatMessage>& messages) {
  return std::any_of(messages.begin(), messages.end(), [](const ChatMessage& message) {
    return message.role == "assistant" && !absl::StripAsciiWhitespace(message.content).empty();
  });
}

}  // namespace distill
