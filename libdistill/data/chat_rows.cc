#include "libdistill/data/chat_rows.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// What data sets call them, and what templates do.
constexpr std::pair<const char*, const char*> kRoles[] = {
    {"system", "system"}, {"user", "user"},         {"human", "user"},      {"assistant", "assistant"},
    {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"model", "assistant"}, {"tool", "tool"}};

constexpr char kExample[] =
    R"({"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]})";

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(std::string(what)); }

absl::StatusOr<std::string> NormalRole(const std::string& role) {
  for (const auto& [name, normal] : kRoles) {
    if (role == name) return std::string(normal);
  }
  const std::string known =
      absl::StrJoin(kRoles, ", ", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); });
  return Invalid(absl::StrCat("unknown role '", role, "'; name it one of ", known));
}

std::string FieldsOf(const Form& form) {
  return absl::StrCat("'", form.role, "' and '", form.content, "' in '", form.list, "'");
}

// Parts are what multimodal data has in place of a text.
absl::StatusOr<std::string> TextOf(const JsonValue& message, const char* name) {
  const JsonValue* value = message.Find(name);
  if (value == nullptr) {
    return Invalid(absl::StrCat("the field '", name, "' is missing; a message has ", FieldsOf(kForms[0]), ", ",
                                FieldsOf(kForms[1])));
  }
  switch (value->kind) {
    case JsonValue::Kind::kString:
      return value->text;
    case JsonValue::Kind::kArray:
      return Invalid(absl::StrCat("'", name, "' is a list, not a string; join the texts of its parts into one"));
    case JsonValue::Kind::kNull:
      return Invalid(absl::StrCat("'", name, "' is null, not a string; write the text, or leave the message out"));
    default:
      return Invalid(absl::StrCat("'", name, "' is not a string; write the text itself, in quotes"));
  }
}

// Chat templates render what the model calls and may call; a conversation without it would be another one.
absl::Status RefuseTools(const JsonValue& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const JsonValue* value = object.Find(name);
    if (value == nullptr || value->kind == JsonValue::Kind::kNull) continue;
    if (value->kind == JsonValue::Kind::kArray && value->items.empty()) continue;
    return Invalid(absl::StrCat("'", name, "' is not supported; leave out the conversations that call tools"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ChatMessage> ParseMessage(const JsonValue& json, const Form& form) {
  if (json.kind != JsonValue::Kind::kObject) {
    return Invalid(absl::StrCat("not a JSON object; a message is {\"", form.role, "\": \"user\", \"", form.content,
                                "\": \"...\"}"));
  }
  ChatMessage message;
  DISTILL_ASSIGN_OR_RETURN(const std::string role, TextOf(json, form.role));
  DISTILL_ASSIGN_OR_RETURN(message.role, NormalRole(role));
  DISTILL_RETURN_IF_ERROR(RefuseTools(json, {"tool_calls", "function_call"}));
  const JsonValue* content = json.Find(form.content);
  if (content != nullptr && content->kind == JsonValue::Kind::kNull && message.role == "assistant") return message;
  DISTILL_ASSIGN_OR_RETURN(message.content, TextOf(json, form.content));
  return message;
}

}  // namespace

absl::StatusOr<std::vector<ChatMessage>> ParseChatRow(const JsonValue& row) {
  if (row.kind != JsonValue::Kind::kObject) {
    return Invalid(absl::StrCat("the row is not a JSON object; JSON Lines has one conversation a line, ", kExample));
  }
  DISTILL_RETURN_IF_ERROR(RefuseTools(row, {"tools", "functions"}));
  for (const Form& form : kForms) {
    const JsonValue* list = row.Find(form.list);
    if (list == nullptr) continue;
    if (list->kind != JsonValue::Kind::kArray) {
      return Invalid(
          absl::StrCat("'", form.list, "' is no list; it holds the messages of one conversation, ", kExample));
    }
    std::vector<ChatMessage> messages;
    for (const JsonValue& item : list->items) {
      absl::StatusOr<ChatMessage> message = ParseMessage(item, form);
      if (!message.ok()) return Annotate(message.status(), absl::StrCat(form.list, "[", messages.size(), "]"));
      messages.push_back(*std::move(message));
    }
    return messages;
  }
  return Invalid(absl::StrCat("the row has neither 'messages' nor 'conversations'; write it as ", kExample));
}

bool HasAnswer(absl::Span<const ChatMessage> messages) {
  return std::any_of(messages.begin(), messages.end(), [](const ChatMessage& message) {
    return message.role == "assistant" && !absl::StripAsciiWhitespace(message.content).empty();
  });
}

}  // namespace distill
