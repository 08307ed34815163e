#include "examples/data/json_text.h"

#include <nlohmann/json.hpp>

namespace distill {
namespace {

nlohmann::ordered_json ToJson(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return nullptr;
    case JsonValue::Kind::kBool:
      return value.boolean;
    case JsonValue::Kind::kNumber:
      return value.integer ? nlohmann::ordered_json(*value.integer) : nlohmann::ordered_json(value.number);
    case JsonValue::Kind::kString:
      return value.text;
    case JsonValue::Kind::kArray: {
      nlohmann::ordered_json items = nlohmann::ordered_json::array();
      for (const JsonValue& item : value.items) items.push_back(ToJson(item));
      return items;
    }
    case JsonValue::Kind::kObject: {
      nlohmann::ordered_json members = nlohmann::ordered_json::object();
      for (const auto& [name, member] : value.members) members[name] = ToJson(member);
      return members;
    }
  }
  return nullptr;
}

}  // namespace

std::string JsonText(const JsonValue& value) { return ToJson(value).dump(); }

}  // namespace distill
