#include "libdistill/nn/gguf_fields.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {

using nlohmann::ordered_json;

double Decimal(float number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  double decimal = number;
  std::from_chars(text, end, decimal);
  return decimal;
}

ordered_json JsonOf(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<float>(&value)) return Decimal(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return absl::StrCat("an array of ", std::get<GgufArray>(value).count);
}

absl::Status RefuseKey(const std::string& key, const ordered_json& value) {
  return absl::InvalidArgumentError(absl::StrCat(
      "its metadata have \"", key, "\": ", value.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
      ", which is not read; ", kCopyConfig));
}

std::string GgufFields::Architecture() const { return GgufText(metadata_, "general.architecture"); }

std::string GgufFields::KeyOf(const std::string& key) const { return absl::StrCat(Architecture(), ".", key); }

ordered_json GgufFields::Get(const std::string& key) const {
  const GgufValue* value = FindOfModel(metadata_, key);
  return value == nullptr ? ordered_json() : JsonOf(*value);
}

void GgufFields::Copy(const char* field, const std::string& key) {
  const GgufValue* value = FindOfModel(metadata_, key);
  if (value != nullptr && !std::holds_alternative<GgufArray>(*value)) config[field] = JsonOf(*value);
}

absl::Status GgufFields::Require(const char* field, const std::string& key) {
  Copy(field, key);
  if (config.contains(field)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("its metadata have no single \"", KeyOf(key), "\"; ", kCopyConfig));
}

absl::Status GgufFields::RequireNo(const std::string& key, double neutral) const {
  const ordered_json value = Get(key);
  if (value.is_null() || value == 0 || value == neutral) return absl::OkStatus();
  return RefuseKey(KeyOf(key), value);
}

int64_t GgufFields::Count(const char* field) const {
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto found = config.find(field);
  if (found == config.end() || !found->is_number_integer()) return 0;
  const auto count = found->get<int64_t>();
  return count > 0 && count <= kMost ? count : 0;
}

}  // namespace distill
