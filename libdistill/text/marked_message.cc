#include "libdistill/text/marked_message.h"

#include <algorithm>

namespace distill {
namespace {

const char kMark[] =
    "\xEE\x80\x80"
    "answer\xEE\x80\x81";  // between U+E000 and U+E001, which are in no text

JsonValue MarkAsJson() {
  JsonValue mark;
  mark.kind = JsonValue::Kind::kString;
  mark.text = kMark;
  return mark;
}

JsonValue* FindField(const std::string& name, ChatMessage* message) {
  for (auto& [key, value] : message->fields) {
    if (key == name) return &value;
  }
  return nullptr;
}

// The name of the first call; nullptr where the message calls nothing.
JsonValue* FirstCall(ChatMessage* message) {
  JsonValue* calls = FindField("tool_calls", message);
  if (calls == nullptr || calls->items.empty()) return nullptr;
  for (auto& [name, value] : calls->items.front().members) {
    if (name == "name") return &value;
    if (name != "function") continue;
    for (auto& [inner_name, inner] : value.members) {
      if (inner_name == "name") return &inner;
    }
  }
  return nullptr;
}

}  // namespace

std::optional<ChatMessage> MarkAnswer(ChatMessage message, bool of_call) {
  if (of_call) {
    JsonValue* call = FirstCall(&message);
    if (call == nullptr) return std::nullopt;
    *call = MarkAsJson();
    return message;
  }
  JsonValue* content = FindField("content", &message);
  if (content == nullptr) {
    message.content = kMark;
  } else if (content->kind == JsonValue::Kind::kArray && !content->items.empty()) {
    content->items.resize(1);
    for (auto& [name, value] : content->items.front().members) {
      if (name == "text") value = MarkAsJson();
    }
  } else {
    *content = MarkAsJson();
  }
  return message;
}

std::optional<std::string> BehindMark(const std::string& text) {
  const size_t mark = text.rfind(kMark);
  return mark == std::string::npos ? std::nullopt : std::optional(text.substr(mark + sizeof(kMark) - 1));
}

bool CallsTools(const ChatMessage& message) {
  return std::any_of(message.fields.begin(), message.fields.end(),
                     [](const auto& field) { return field.first == "tool_calls" && !field.second.items.empty(); });
}

}  // namespace distill
