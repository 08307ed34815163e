#include "libdistill/data/chat_message.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/marked_message.h"

namespace distill {
namespace {

// What data sets call them, and what templates do.
constexpr std::pair<const char*, const char*> kRoles[] = {
    {"system", "system"},     {"user", "user"},         {"human", "user"},         {"assistant", "assistant"},
    {"gpt", "assistant"},     {"chatgpt", "assistant"}, {"model", "assistant"},    {"tool", "tool"},
    {"function", "function"}, {"observation", "tool"},  {"developer", "developer"}};

absl::StatusOr<std::string> NormalRole(const std::string& role) {
  for (const auto& [name, normal] : kRoles) {
    if (role == name) return std::string(normal);
  }
  const std::string known =
      absl::StrJoin(kRoles, ", ", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); });
  return absl::InvalidArgumentError(absl::StrCat("unknown role '", role, "'; name it one of ", known));
}

std::string FieldsOf(const MessageForm& form) {
  return absl::StrCat("'", form.role, "' and '", form.content, "' in '", form.list, "'");
}

// The texts of a message that comes in parts.
absl::StatusOr<std::string> TextOfParts(const JsonValue& parts, const char* name) {
  std::string text;
  for (const JsonValue& part : parts.items) {
    const JsonValue* type = part.Find("type");
    const JsonValue* said = part.Find("text");
    if (type == nullptr || type->text != "text" || said == nullptr || said->kind != JsonValue::Kind::kString) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", name, "' has a part that is no {\"type\": \"text\", \"text\": \"...\"}; only texts are ",
                       "supported: leave out conversations with images or sounds"));
    }
    text += said->text;
  }
  return text;
}

// Sets the content. What is no string stays among the fields, as templates tell null and lists from texts.
absl::Status ParseContent(const JsonValue& json, const char* name, ChatMessage* message) {
  const JsonValue* value = json.Find(name);
  const bool is_null = value == nullptr || value->kind == JsonValue::Kind::kNull;
  if (is_null && message->role == "assistant") {
    // Beside calls of tools nothing need be said; templates tell null from the empty text then.
    if (CallsTools(*message)) {
      message->fields.emplace_back("content", JsonValue());
      return absl::OkStatus();
    }
    if (value != nullptr) return absl::OkStatus();
  }
  if (value == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the field '", name, "' is missing; a message has ",
                                                   FieldsOf(kMessageForms[0]), ", ", FieldsOf(kMessageForms[1])));
  }
  switch (value->kind) {
    case JsonValue::Kind::kString:
      message->content = value->text;
      return absl::OkStatus();
    case JsonValue::Kind::kArray: {
      DISTILL_ASSIGN_OR_RETURN(message->content, TextOfParts(*value, name));
      message->fields.emplace_back("content", *value);
      return absl::OkStatus();
    }
    case JsonValue::Kind::kNull:
      return absl::InvalidArgumentError(
          absl::StrCat("'", name, "' is null, not a string; write the text, or leave the message out"));
    default:
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not a string; write the text itself, in quotes"));
  }
}

// As in OpenAI's files for fine-tuning: an answer of weight 0 is context alone.
absl::StatusOr<bool> HasLoss(const JsonValue& message) {
  const JsonValue* weight = message.Find("weight");
  if (weight == nullptr || weight->kind == JsonValue::Kind::kNull) return true;
  if (weight->kind == JsonValue::Kind::kNumber && (weight->number == 0 || weight->number == 1)) {
    return weight->number == 1;
  }
  return absl::InvalidArgumentError("'weight' is neither 0 nor 1; other weights are not supported");
}

}  // namespace

bool IsEmpty(const JsonValue& value) {
  return value.kind == JsonValue::Kind::kNull || (value.kind == JsonValue::Kind::kArray && value.items.empty());
}

absl::StatusOr<ChatMessage> ParseChatMessage(const JsonValue& json, const MessageForm& form) {
  if (json.kind != JsonValue::Kind::kObject) {
    return absl::InvalidArgumentError(absl::StrCat("not a JSON object; a message is {\"", form.role, "\": \"user\", \"",
                                                   form.content, "\": \"...\"}"));
  }
  const JsonValue* role = json.Find(form.role);
  if (role == nullptr || role->kind != JsonValue::Kind::kString) {
    return absl::InvalidArgumentError(
        role == nullptr ? absl::StrCat("the field '", form.role, "' is missing; a message has ",
                                       FieldsOf(kMessageForms[0]), ", ", FieldsOf(kMessageForms[1]))
                        : absl::StrCat("'", form.role, "' is not a string; write the text itself, in quotes"));
  }
  ChatMessage message;
  DISTILL_ASSIGN_OR_RETURN(message.role, NormalRole(role->text));
  DISTILL_ASSIGN_OR_RETURN(message.has_loss, HasLoss(json));
  for (const auto& [name, value] : json.members) {
    if (name == form.role || name == form.content || name == "role" || name == "content" || name == "weight") continue;
    if (!IsEmpty(value)) message.fields.emplace_back(name, value);
  }
  DISTILL_RETURN_IF_ERROR(ParseContent(json, form.content, &message));
  return message;
}

}  // namespace distill
