#include "libdistill/data/chat_row.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_message.h"
#include "libdistill/data/single_turn_row.h"

namespace distill {
namespace {

// The form of a row; null where it is no list of messages.
const MessageForm* FormOf(const JsonValue& row) {
  const MessageForm* found = nullptr;
  for (const MessageForm& form : kMessageForms) {
    const JsonValue* list = row.Find(form.list);
    if (list == nullptr) continue;
    if (found == nullptr) found = &form;
    if (!list->items.empty() && list->items.front().Find(form.role) != nullptr) return &form;
  }
  return found;
}

constexpr char kText[] = "text";
constexpr char kExample[] =
    R"({"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]})";

// Many data sets hold the tools as a text of JSON, since their forms differ from row to row.
absl::StatusOr<JsonValue> ParseTools(const JsonValue& tools) {
  JsonValue list = tools;
  if (tools.kind == JsonValue::Kind::kString) {
    absl::StatusOr<JsonValue> parsed = ParseJson(tools.text);
    if (!parsed.ok()) return Annotate(parsed.status(), "'tools' is a text that should be JSON");
    list = *std::move(parsed);
  }
  if (list.kind != JsonValue::Kind::kArray) {
    return absl::InvalidArgumentError("'tools' is no list; it holds one description a tool");
  }
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
      if (value.kind != JsonValue::Kind::kObject) {
        return absl::InvalidArgumentError("'chat_template_kwargs' is no object of variables");
      }
      for (const auto& [variable, said] : value.members) {
        if (variable != "messages" && variable != "add_generation_prompt")
          conversation->fields.emplace_back(variable, said);
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ChatMessage>> ParseMessages(const JsonValue& row, const MessageForm& form) {
  const JsonValue& list = *row.Find(form.list);
  if (list.kind != JsonValue::Kind::kArray) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", form.list, "' is no list; it holds the messages of one conversation, ", kExample));
  }
  std::vector<ChatMessage> messages;
  for (const JsonValue& item : list.items) {
    absl::StatusOr<ChatMessage> message = ParseChatMessage(item, form);
    if (!message.ok()) return Annotate(message.status(), absl::StrCat(form.list, "[", messages.size(), "]"));
    messages.push_back(*std::move(message));
  }
  return messages;
}

}  // namespace

absl::StatusOr<Conversation> ParseChatRow(const JsonValue& row) {
  if (row.kind != JsonValue::Kind::kObject) {
    return absl::InvalidArgumentError(
        absl::StrCat("the row is not a JSON object; JSON Lines has one conversation a line, ", kExample));
  }
  const MessageForm* form = FormOf(row);
  if (form == nullptr && !IsSingleTurn(row)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the row has neither 'messages' nor 'conversations', nor one question and its answer (", SingleTurnColumns(),
        "), nor 'text': name its columns with dataset_columns, or write it as ", kExample));
  }
  Conversation conversation;
  DISTILL_ASSIGN_OR_RETURN(conversation.messages, form != nullptr ? ParseMessages(row, *form) : ParseSingleTurn(row));
  DISTILL_RETURN_IF_ERROR(ParseFields(row, &conversation));
  return conversation;
}

bool IsPlainText(const JsonValue& row) {
  return row.kind == JsonValue::Kind::kObject && row.Find(kText) != nullptr && FormOf(row) == nullptr &&
         !IsSingleTurn(row);
}

// Whether a row's member is read, whatever the chat template.
static bool IsReadOfRows(const std::string& name, const JsonValue& row) {
  if (name == "tools" || name == "documents" || name == "chat_template_kwargs") return true;
  const MessageForm* form = FormOf(row);
  if (form != nullptr) return name == form->list;
  return IsPlainText(row) ? name == kText : IsReadOfSingleTurn(row, name);
}

void AddUnread(const JsonValue& row, absl::string_view template_text, std::set<std::string>& unread) {
  for (const auto& [name, value] : row.members) {
    if (!IsReadOfRows(name, row)) unread.insert(absl::StrCat("'", name, "'"));
    if ((name == "tools" || name == "documents") && !IsEmpty(value) && !absl::StrContains(template_text, name)) {
      unread.insert(absl::StrCat("'", name, "' (the chat template has no place for them)"));
    }
  }
  const MessageForm* form = FormOf(row);
  if (form == nullptr) return;
  for (const JsonValue& message : row.Find(form->list)->items) {
    for (const auto& [name, value] : message.members) {
      if (name == form->role || name == form->content || name == "weight" || IsEmpty(value)) continue;
      if (!absl::StrContains(template_text, name)) unread.insert(absl::StrCat("'", name, "' of messages"));
    }
  }
}

}  // namespace distill
