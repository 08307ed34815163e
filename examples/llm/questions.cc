#include "examples/llm/questions.h"

#include <utility>

#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_row.h"
#include "libdistill/data/rows.h"

namespace distill {
namespace {

JsonValue Text(const std::string& text) {
  JsonValue value;
  value.kind = JsonValue::Kind::kString;
  value.text = text;
  return value;
}

JsonValue Whole(int64_t number) {
  JsonValue value;
  value.kind = JsonValue::Kind::kNumber;
  value.number = static_cast<double>(number);
  value.integer = number;
  return value;
}

JsonValue Object(std::vector<std::pair<std::string, JsonValue>> members) {
  JsonValue value;
  value.kind = JsonValue::Kind::kObject;
  value.members = std::move(members);
  return value;
}

// A row that asks and does not answer, as one with an empty answer.
JsonValue WithAnswer(const JsonValue& row) {
  JsonValue answered = row;
  if (row.Find("messages") != nullptr || row.Find("conversations") != nullptr) return answered;
  for (const auto& [question, answer] :
       {std::pair("prompt", "completion"), std::pair("question", "answer"), std::pair("instruction", "output")}) {
    if (row.Find(question) == nullptr) continue;
    if (row.Find(answer) == nullptr) answered.members.emplace_back(answer, Text(""));
    break;
  }
  return answered;
}

JsonValue MessageRow(const ChatMessage& message) {
  JsonValue row = Object({{"role", Text(message.role)}});
  bool has_content = false;
  for (const auto& [name, value] : message.fields) has_content = has_content || name == "content";
  if (!has_content) row.members.emplace_back("content", Text(message.content));
  row.members.insert(row.members.end(), message.fields.begin(), message.fields.end());
  return row;
}

}  // namespace

Conversation QuestionOf(const std::string& prompt) { return {{{"user", prompt}}}; }

absl::StatusOr<std::vector<Conversation>> ReadQuestions(const std::string& path, const RowOptions& options) {
  std::vector<Conversation> questions;
  const auto take = [&](const JsonValue& row, const std::string&) -> absl::StatusOr<bool> {
    DISTILL_ASSIGN_OR_RETURN(Conversation conversation, ParseChatRow(WithAnswer(row)));
    std::vector<ChatMessage>& messages = conversation.messages;
    if (!messages.empty() && messages.back().role == "assistant") messages.pop_back();
    if (messages.empty()) return absl::InvalidArgumentError("the row asks nothing");
    questions.push_back(std::move(conversation));
    return true;
  };
  DISTILL_RETURN_IF_ERROR(ForEachRow(path, /*split=*/"", options, take));
  return questions;
}

JsonValue AnsweredRow(const Conversation& question, const std::string& answer, bool has_ended, int64_t tokens) {
  JsonValue messages;
  messages.kind = JsonValue::Kind::kArray;
  for (const ChatMessage& message : question.messages) messages.items.push_back(MessageRow(message));
  messages.items.push_back(Object({{"role", Text("assistant")}, {"content", Text(answer)}}));
  std::vector<std::pair<std::string, JsonValue>> members = {{"messages", std::move(messages)}};
  for (const auto& [name, value] : question.fields) {
    // Others are variables of the template, which rows hold in a map.
    if (name == "tools" || name == "documents") members.emplace_back(name, value);
  }
  members.emplace_back("finish_reason", Text(has_ended ? "stop" : "length"));
  members.emplace_back("tokens", Whole(tokens));
  return Object(std::move(members));
}

}  // namespace distill
