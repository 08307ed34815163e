#include "libdistill/text/conversation.h"

#include <algorithm>

#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

using Variables = std::vector<std::pair<std::string, jinja::Value>>;

// The recursion is as deep as JSON rows may nest.
absl::StatusOr<jinja::Value> ToTemplate(const JsonValue& json) {
  switch (json.kind) {
    case JsonValue::Kind::kNull:
      return jinja::Value::MakeNone();
    case JsonValue::Kind::kBool:
      return jinja::Value(json.boolean);
    case JsonValue::Kind::kNumber:
      return json.integer ? jinja::Value(*json.integer) : jinja::Value(json.number);
    case JsonValue::Kind::kString:
      return jinja::Value(json.text);
    case JsonValue::Kind::kArray: {
      std::vector<jinja::Value> items;
      for (const JsonValue& item : json.items) {
        DISTILL_ASSIGN_OR_RETURN(jinja::Value value, ToTemplate(item));
        items.push_back(std::move(value));
      }
      return jinja::MakeList(std::move(items));
    }
    case JsonValue::Kind::kObject: {
      std::vector<std::pair<jinja::Value, jinja::Value>> entries;
      for (const auto& [name, member] : json.members) {
        DISTILL_ASSIGN_OR_RETURN(jinja::Value value, ToTemplate(member));
        entries.emplace_back(name, std::move(value));
      }
      return jinja::MakeDict(std::move(entries));
    }
  }
  return jinja::Value();
}

absl::StatusOr<jinja::Value> ToTemplate(const ChatMessage& message) {
  const auto is_content = [](const auto& field) { return field.first == "content"; };
  std::vector<std::pair<jinja::Value, jinja::Value>> entries = {{"role", message.role}};
  if (std::none_of(message.fields.begin(), message.fields.end(), is_content)) {
    entries.emplace_back("content", message.content);
  }
  for (const auto& [name, field] : message.fields) {
    DISTILL_ASSIGN_OR_RETURN(jinja::Value value, ToTemplate(field));
    entries.emplace_back(name, std::move(value));
  }
  return jinja::MakeDict(std::move(entries));
}

}  // namespace

absl::StatusOr<Variables> TemplateVariables(const Conversation& conversation, bool add_generation_prompt) {
  std::vector<jinja::Value> messages;
  for (const ChatMessage& message : conversation.messages) {
    DISTILL_ASSIGN_OR_RETURN(jinja::Value entry, ToTemplate(message));
    messages.push_back(std::move(entry));
  }
  DISTILL_ASSIGN_OR_RETURN(jinja::Value list, jinja::MakeList(std::move(messages)));
  Variables variables = {{"messages", std::move(list)},
                         {"add_generation_prompt", jinja::Value(add_generation_prompt)},
                         {"tools", jinja::Value::MakeNone()},
                         {"documents", jinja::Value::MakeNone()}};
  for (const auto& [name, field] : conversation.fields) {
    DISTILL_ASSIGN_OR_RETURN(jinja::Value value, ToTemplate(field));
    const auto same = std::find_if(variables.begin(), variables.end(),
                                   [&name = name](const auto& variable) { return variable.first == name; });
    if (same == variables.end()) {
      variables.emplace_back(name, std::move(value));
    } else {
      same->second = std::move(value);
    }
  }
  return variables;
}

}  // namespace distill
