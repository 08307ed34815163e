#include "libdistill/text/json_fields.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/store/strict_json.h"

namespace distill {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxSequenceDepth = 4;
constexpr int64_t kMaxId = (int64_t{1} << 22) - 1;

}  // namespace

absl::Status Unsupported(absl::string_view part, absl::string_view kind, absl::string_view supported) {
  return Invalid(absl::StrCat(part, " '", kind, "' is not supported; supported: ", supported));
}

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

absl::StatusOr<std::string> GetString(const Json& object, const char* key) {
  const Json& value = Get(object, key);
  if (!value.is_string()) return Invalid(absl::StrCat(TypeOf(object), " has no string '", key, "'"));
  return value.get<std::string>();
}

absl::StatusOr<std::string> GetCharacter(const Json& object, const char* key) {
  DISTILL_ASSIGN_OR_RETURN(std::string text, GetString(object, key));
  if (CountCodePoints(text) != 1) {
    return Invalid(absl::StrCat(TypeOf(object), ": '", key, "' is '", text, "', and not one character"));
  }
  return text;
}

absl::Status ForEachOf(const Json& part, const char* key, absl::FunctionRef<absl::Status(const Json&)> visit,
                       int depth) {
  if (part.is_null()) return absl::OkStatus();
  if (TypeOf(part) != "Sequence") return visit(part);
  if (depth == kMaxSequenceDepth) return Invalid("Sequences are nested too deep");
  const Json& members = Get(part, key);
  if (!members.is_array()) return Invalid(absl::StrCat("a Sequence has no list '", key, "'"));
  for (const Json& member : members) DISTILL_RETURN_IF_ERROR(ForEachOf(member, key, visit, depth + 1));
  return absl::OkStatus();
}

absl::StatusOr<Regex> PatternOf(const Json& step) {
  const Json& pattern = Get(step, "pattern");
  for (const char* kind : {"Regex", "String"}) {
    const Json& text = Get(pattern, kind);
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) continue;
    const bool is_regex = kind == absl::string_view("Regex");
    return is_regex ? Regex::Compile(text.get<std::string>()) : Regex::Literal(text.get<std::string>());
  }
  return Unsupported(absl::StrCat(TypeOf(step), "'s pattern"),
                     pattern.dump(-1, ' ', true, Json::error_handler_t::replace),
                     "{\"Regex\": pattern}, {\"String\": text}");
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

absl::StatusOr<Json> ParseObjectOrNone(const std::string& text) {
  return text.empty() ? Json::object() : ParseObject(text);
}

std::string TokenContent(const Json& token) {
  const Json& content = token.is_object() ? Get(token, "content") : token;
  return content.is_string() ? content.get<std::string>() : "";
}

}  // namespace distill
