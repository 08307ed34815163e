#include "libdistill/data/chat_row.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/marked_message.h"

namespace distill {
namespace {

// The forms differ in names only.
struct Form {
  const char* list;
  const char* role;
  const char* content;
};
constexpr Form kForms[] = {
    {"messages", "role", "content"}, {"conversations", "from", "value"}, {"conversations", "role", "content"}};

// The form of a row; null where it has none.
const Form* FormOf(const JsonValue& row) {
  const Form* found = nullptr;
  for (const Form& form : kForms) {
    const JsonValue* list = row.Find(form.list);
    if (list == nullptr) continue;
    if (found == nullptr) found = &form;
    if (!list->items.empty() && list->items.front().Find(form.role) != nullptr) return &form;
  }
  return found;
}

// What data sets call them, and what templates do.
constexpr std::pair<const char*, const char*> kRoles[] = {
    {"system", "system"},     {"user", "user"},         {"human", "user"},         {"assistant", "assistant"},
    {"gpt", "assistant"},     {"chatgpt", "assistant"}, {"model", "assistant"},    {"tool", "tool"},
    {"function", "function"}, {"observation", "tool"},  {"developer", "developer"}};

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

// The texts of a message that comes in parts.
absl::StatusOr<std::string> TextOfParts(const JsonValue& parts, const char* name) {
  std::string text;
  for (const JsonValue& part : parts.items) {
    const JsonValue* type = part.Find("type");
    const JsonValue* said = part.Find("text");
    if (type == nullptr || type->text != "text" || said == nullptr || said->kind != JsonValue::Kind::kString) {
      return Invalid(absl::StrCat("'", name,
                                  "' has a part that is no {\"type\": \"text\", \"text\": \"...\"}; only texts are ",
                                  "supported: leave out conversations with images or sounds"));
    }
    text += said->text;
  }
  return text;
}

bool IsEmpty(const JsonValue& value) {
  return value.kind == JsonValue::Kind::kNull || (value.kind == JsonValue::Kind::kArray && value.items.empty());
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
    return Invalid(absl::StrCat("the field '", name, "' is missing; a message has ", FieldsOf(kForms[0]), ", ",
                                FieldsOf(kForms[1])));
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
      return Invalid(absl::StrCat("'", name, "' is null, not a string; write the text, or leave the message out"));
    default:
      return Invalid(absl::StrCat("'", name, "' is not a string; write the text itself, in quotes"));
  }
}

// As in OpenAI's files for fine-tuning: an answer of weight 0 is context alone.
absl::StatusOr<bool> HasLoss(const JsonValue& message) {
  const JsonValue* weight = message.Find("weight");
  if (weight == nullptr || weight->kind == JsonValue::Kind::kNull) return true;
  if (weight->kind == JsonValue::Kind::kNumber && (weight->number == 0 || weight->number == 1)) {
    return weight->number == 1;
  }
  return Invalid("'weight' is neither 0 nor 1; other weights are not supported");
}

absl::StatusOr<ChatMessage> ParseMessage(const JsonValue& json, const Form& form) {
  if (json.kind != JsonValue::Kind::kObject) {
    return Invalid(absl::StrCat("not a JSON object; a message is {\"", form.role, "\": \"user\", \"", form.content,
                                "\": \"...\"}"));
  }
  const JsonValue* role = json.Find(form.role);
  if (role == nullptr || role->kind != JsonValue::Kind::kString) {
    return Invalid(role == nullptr
                       ? absl::StrCat("the field '", form.role, "' is missing; a message has ", FieldsOf(kForms[0]),
                                      ", ", FieldsOf(kForms[1]))
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

// Many data sets hold the tools as a text of JSON, since their forms differ from row to row.
absl::StatusOr<JsonValue> ParseTools(const JsonValue& tools) {
  JsonValue list = tools;
  if (tools.kind == JsonValue::Kind::kString) {
    absl::StatusOr<JsonValue> parsed = ParseJson(tools.text);
    if (!parsed.ok()) return Annotate(parsed.status(), "'tools' is a text that should be JSON");
    list = *std::move(parsed);
  }
  if (list.kind != JsonValue::Kind::kArray) return Invalid("'tools' is no list; it holds one description a tool");
  return list;
}

// What a row says beside its messages. chat_template_kwargs holds variables by name.
absl::Status ParseFields(const JsonValue& row, Conversation* conversation) {
  for (const auto& [name, value] : row.members) {
    if (IsEmpty(value)) continue;
    if (name == "tools") {
      DISTILL_ASSIGN_OR_RETURN(JsonValue tools, ParseTools(value));
      if (!tools.items.empty()) conversation->fields.emplace_back(name, std::move(tools));
    } else if (name == "documents") {
      conversation->fields.emplace_back(name, value);
    } else if (name == "chat_template_kwargs") {
      if (value.kind != JsonValue::Kind::kObject) return Invalid("'chat_template_kwargs' is no object of variables");
      for (const auto& [variable, said] : value.members) {
        if (variable != "messages" && variable != "add_generation_prompt")
          conversation->fields.emplace_back(variable, said);
      }
    }
  }
  return absl::OkStatus();
}

bool IsReadOfRows(const std::string& name, const Form& form) {
  return name == form.list || name == "tools" || name == "documents" || name == "chat_template_kwargs";
}

}  // namespace

absl::StatusOr<Conversation> ParseChatRow(const JsonValue& row) {
  if (row.kind != JsonValue::Kind::kObject) {
    return Invalid(absl::StrCat("the row is not a JSON object; JSON Lines has one conversation a line, ", kExample));
  }
  const Form* form = FormOf(row);
  if (form == nullptr) {
    return Invalid(absl::StrCat("the row has neither 'messages' nor 'conversations'; write it as ", kExample));
  }
  const JsonValue& list = *row.Find(form->list);
  if (list.kind != JsonValue::Kind::kArray) {
    return Invalid(
        absl::StrCat("'", form->list, "' is no list; it holds the messages of one conversation, ", kExample));
  }
  Conversation conversation;
  for (const JsonValue& item : list.items) {
    absl::StatusOr<ChatMessage> message = ParseMessage(item, *form);
    if (!message.ok()) {
      return Annotate(message.status(), absl::StrCat(form->list, "[", conversation.messages.size(), "]"));
    }
    conversation.messages.push_back(*std::move(message));
  }
  DISTILL_RETURN_IF_ERROR(ParseFields(row, &conversation));
  return conversation;
}

void AddUnread(const JsonValue& row, absl::string_view template_text, std::set<std::string>& unread) {
  const Form* form = FormOf(row);
  for (const auto& [name, value] : row.members) {
    if (!IsReadOfRows(name, *form)) unread.insert(absl::StrCat("'", name, "'"));
    if ((name == "tools" || name == "documents") && !IsEmpty(value) && !absl::StrContains(template_text, name)) {
      unread.insert(absl::StrCat("'", name, "' (the chat template has no place for them)"));
    }
  }
  for (const JsonValue& message : row.Find(form->list)->items) {
    for (const auto& [name, value] : message.members) {
      if (name == form->role || name == form->content || name == "weight" || IsEmpty(value)) continue;
      if (!absl::StrContains(template_text, name)) unread.insert(absl::StrCat("'", name, "' of messages"));
    }
  }
}

}  // namespace distill
