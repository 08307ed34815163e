#include "libdistill/data/single_turn_row.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_message.h"

namespace distill {
namespace {

struct SingleTurn {
  const char* user;
  const char* more;  // goes behind it after a blank line, where the row has it and it is not empty; may be null
  const char* assistant;
};
constexpr SingleTurn kForms[] = {
    {"prompt", nullptr, "completion"},
    {"question", nullptr, "answer"},
    {"instruction", "input", "output"},  // Alpaca's
    {"instruction", "input", "response"},
};
constexpr char kSystem[] = "system";
constexpr MessageForm kMessages = kMessageForms[0];

const SingleTurn* FormOf(const JsonValue& row) {
  for (const SingleTurn& form : kForms) {
    if (row.Find(form.user) != nullptr && row.Find(form.assistant) != nullptr) return &form;
  }
  return nullptr;
}

absl::StatusOr<std::string> TextIn(const JsonValue& row, const char* name) {
  const JsonValue* value = row.Find(name);
  if (value == nullptr || value->kind == JsonValue::Kind::kNull) return std::string();
  if (value->kind == JsonValue::Kind::kString) return value->text;
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not a string; write the text itself, in quotes"));
}

// A list of messages, or one text of this role.
absl::Status AddMessages(const JsonValue& row, const char* name, const char* role, bool has_loss,
                         std::vector<ChatMessage>& all) {
  const JsonValue& value = *row.Find(name);
  if (value.kind != JsonValue::Kind::kArray) {
    ChatMessage message;
    message.role = role;
    DISTILL_ASSIGN_OR_RETURN(message.content, TextIn(row, name));
    message.has_loss = has_loss;
    all.push_back(std::move(message));
    return absl::OkStatus();
  }
  for (size_t i = 0; i < value.items.size(); ++i) {
    absl::StatusOr<ChatMessage> message = ParseChatMessage(value.items[i], kMessages);
    if (!message.ok()) return Annotate(message.status(), absl::StrCat(name, "[", i, "]"));
    message->has_loss = message->has_loss && has_loss;
    all.push_back(*std::move(message));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsSingleTurn(const JsonValue& row) { return FormOf(row) != nullptr; }

bool IsReadOfSingleTurn(const JsonValue& row, absl::string_view name) {
  const SingleTurn* form = FormOf(row);
  if (form == nullptr) return false;
  return name == form->user || name == form->assistant || name == kSystem ||
         (form->more != nullptr && name == form->more);
}

std::string SingleTurnColumns() {
  return absl::StrJoin(kForms, ", ", [](std::string* out, const SingleTurn& form) {
    absl::StrAppend(out, "'", form.user, "' and '", form.assistant, "'");
  });
}

absl::StatusOr<std::vector<ChatMessage>> ParseSingleTurn(const JsonValue& row) {
  const SingleTurn& form = *FormOf(row);
  std::vector<ChatMessage> messages;
  DISTILL_ASSIGN_OR_RETURN(std::string system, TextIn(row, kSystem));
  if (!system.empty()) {
    ChatMessage message;
    message.role = kSystem;
    message.content = std::move(system);
    messages.push_back(std::move(message));
  }
  DISTILL_RETURN_IF_ERROR(AddMessages(row, form.user, "user", /*has_loss=*/false, messages));
  if (form.more != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(const std::string more, TextIn(row, form.more));
    if (!more.empty()) absl::StrAppend(&messages.back().content, "\n\n", more);
  }
  DISTILL_RETURN_IF_ERROR(AddMessages(row, form.assistant, "assistant", /*has_loss=*/true, messages));
  return messages;
}

}  // namespace distill
