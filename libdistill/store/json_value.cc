#include "libdistill/store/json_value.h"

#include <simdjson.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace distill {
namespace {

static_assert(JsonParser::kPadding >= simdjson::SIMDJSON_PADDING);

// The recursion is as deep as the parser's own limit on nesting.
JsonValue Convert(simdjson::dom::element element) {
  JsonValue value;
  switch (element.type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      break;
    case simdjson::dom::element_type::BOOL:
      value.kind = JsonValue::Kind::kBool;
      value.boolean = element.get_bool().value_unsafe();
      break;
    case simdjson::dom::element_type::INT64:
    case simdjson::dom::element_type::UINT64:
    case simdjson::dom::element_type::DOUBLE:
      value.kind = JsonValue::Kind::kNumber;
      value.number = element.get_double().value_unsafe();
      if (element.is_int64()) value.integer = element.get_int64().value_unsafe();
      break;
    case simdjson::dom::element_type::STRING:
      value.kind = JsonValue::Kind::kString;
      value.text = element.get_string().value_unsafe();
      break;
    case simdjson::dom::element_type::ARRAY: {
      value.kind = JsonValue::Kind::kArray;
      const simdjson::dom::array items = element.get_array().value_unsafe();
      for (const simdjson::dom::element item : items) value.items.push_back(Convert(item));
      break;
    }
    case simdjson::dom::element_type::OBJECT: {
      value.kind = JsonValue::Kind::kObject;
      const simdjson::dom::object members = element.get_object().value_unsafe();
      for (const simdjson::dom::key_value_pair member : members) {
        value.members.emplace_back(member.key, Convert(member.value));
      }
      break;
    }
  }
  return value;
}

// One value over many lines begins with a bracket alone.
const char* HintFor(absl::string_view line) {
  const size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t\r");
  const bool is_bracket =
      first == last && first != absl::string_view::npos && (line[first] == '[' || line[first] == '{');
  return is_bracket ? "; JSON Lines has each value on a line of its own, and no list around them"
                    : "; complete or remove the line";
}

absl::Status ErrorOf(simdjson::error_code error, absl::string_view text) {
  if (error == simdjson::UTF8_ERROR) {
    return absl::InvalidArgumentError(
        "the line is not valid UTF-8; convert the file (iconv -t UTF-8 -f ENCODING), or remove the line");
  }
  if (error == simdjson::DEPTH_ERROR) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON is nested more than ", kMaxJsonDepth, " levels deep; flatten or remove the line"));
  }
  return absl::InvalidArgumentError(absl::StrCat("not valid JSON: ", simdjson::error_message(error), HintFor(text)));
}

}  // namespace

JsonValue::JsonValue() = default;

const JsonValue* JsonValue::Find(absl::string_view name) const {
  for (const auto& [key, value] : members) {
    if (key == name) return &value;
  }
  return nullptr;
}

// The recursion is as deep as kMaxJsonDepth. Short texts lie within their value.
int64_t JsonValue::MemoryBytes() const {
  const auto beside = [](const std::string& text) {
    return text.capacity() > std::string().capacity() ? static_cast<int64_t>(text.capacity()) + 1 : 0;
  };
  constexpr auto kMember = static_cast<int64_t>(sizeof(members[0])), kValue = static_cast<int64_t>(sizeof(JsonValue));
  int64_t bytes = kValue + beside(text) + static_cast<int64_t>(items.capacity() - items.size()) * kValue +
                  static_cast<int64_t>(members.capacity() - members.size()) * kMember;
  for (const JsonValue& item : items) bytes += item.MemoryBytes();
  for (const auto& [name, value] : members) bytes += kMember - kValue + beside(name) + value.MemoryBytes();
  return bytes;
}

struct JsonParser::Impl {
  simdjson::dom::parser parser;
};

JsonParser::JsonParser() : impl_(std::make_unique<Impl>()) {}
JsonParser::~JsonParser() = default;

absl::StatusOr<JsonValue> JsonParser::Parse(absl::string_view padded_text) {
  simdjson::dom::parser& parser = impl_->parser;
  // Twice the size, so that longer and longer lines do not take new memory each.
  if (parser.capacity() < padded_text.size() &&
      parser.allocate(std::max(2 * parser.capacity(), padded_text.size()), kMaxJsonDepth) != simdjson::SUCCESS) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a line of ", padded_text.size(), " bytes; shorten or remove it"));
  }
  simdjson::dom::element element;
  const simdjson::error_code error =
      parser.parse(padded_text.data(), padded_text.size(), /*realloc_if_needed=*/false).get(element);
  if (error != simdjson::SUCCESS) return ErrorOf(error, padded_text);
  return Convert(element);
}

absl::StatusOr<JsonValue> ParseJson(absl::string_view text) {
  std::string padded(text);
  padded.resize(text.size() + JsonParser::kPadding);
  return JsonParser().Parse(absl::string_view(padded).substr(0, text.size()));
}

}  // namespace distill
