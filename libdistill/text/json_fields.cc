#include "libdistill/text/json_fields.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/strict_json.h"

namespace distill {
namespace {

constexpr int kMaxDepth = 64;
constexpr int64_t kMaxId = (int64_t{1} << 22) - 1;

}  // namespace

absl::StatusOr<Json> ParseObject(const std::string& text) {
  DISTILL_RETURN_IF_ERROR(CheckJson(text, kMaxDepth));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Invalid("holds no JSON object");
  return json;
}

const Json& Get(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::string TypeOf(const Json& object) {
  const Json& type = Get(object, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

absl::StatusOr<bool> GetBool(const Json& object, const char* key, bool otherwise) {
  const Json& value = Get(object, key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) return Invalid(absl::StrCat("'", key, "' is neither true nor false"));
  return value.get<bool>();
}

absl::StatusOr<int32_t> GetId(const Json& value, const std::string& token) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > kMaxId) {
    return Invalid(absl::StrCat("the id of token '", token, "' is not an integer from 0 to ", kMaxId));
  }
  return value.get<int32_t>();
}

absl::StatusOr<AddedToken> AddedTokenOf(const Json& entry, absl::string_view what) {
  const Json& content = Get(entry, "content");
  if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
    return Invalid(absl::StrCat(what, " has no 'content'"));
  }
  AddedToken token;
  token.content = content.get<std::string>();
  DISTILL_ASSIGN_OR_RETURN(token.special, GetBool(entry, "special", false));
  DISTILL_ASSIGN_OR_RETURN(token.normalized, GetBool(entry, "normalized", !token.special));
  DISTILL_ASSIGN_OR_RETURN(token.lstrip, GetBool(entry, "lstrip", false));
  DISTILL_ASSIGN_OR_RETURN(token.rstrip, GetBool(entry, "rstrip", false));
  DISTILL_ASSIGN_OR_RETURN(token.single_word, GetBool(entry, "single_word", false));
  return token;
}

}  // namespace distill
