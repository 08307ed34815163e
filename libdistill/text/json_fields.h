// Fields of the JSON files of a tokenizer's folder. Internal to text/.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/text/added_tokens.h"
#include "libdistill/text/regex.h"

namespace distill {

using Json = nlohmann::json;

inline absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(std::string(what)); }

// InvalidArgument: '`kind`' of `part` is not supported, and what is.
absl::Status Unsupported(absl::string_view part, absl::string_view kind, absl::string_view supported);

// DataLoss: no JSON. InvalidArgument: no object.
[[nodiscard]] absl::StatusOr<Json> ParseObject(const std::string& text);

// A member of an object; null where it is absent, or `object` is no object.
const Json& Get(const Json& object, const char* key);

// The string "type", or "".
std::string TypeOf(const Json& object);

// An empty text is an object without members.
[[nodiscard]] absl::StatusOr<Json> ParseObjectOrNone(const std::string& text);
// Of the value of "bos_token" and its like: a string, or an object with "content". "" where there is none.
std::string TokenContent(const Json& token);
[[nodiscard]] absl::StatusOr<bool> GetBool(const Json& object, const char* key, bool otherwise);

// InvalidArgument: absent, or no string.
[[nodiscard]] absl::StatusOr<std::string> GetString(const Json& object, const char* key);
// As GetString, of one character.
[[nodiscard]] absl::StatusOr<std::string> GetCharacter(const Json& object, const char* key);

// Calls visit(part) for each part of a "Sequence", whose members stand under `key`, or for `part` alone; not at all for
// null. InvalidArgument besides: Sequences too deep.
[[nodiscard]] absl::Status ForEachOf(const Json& part, const char* key,
                                     absl::FunctionRef<absl::Status(const Json&)> visit, int depth = 0);

// The member "pattern" of a step: {"Regex": ...}, or {"String": ...}, which stands for itself.
[[nodiscard]] absl::StatusOr<Regex> PatternOf(const Json& step);

[[nodiscard]] absl::StatusOr<int32_t> GetId(const Json& value, const std::string& token);

// {"content": ..., "special": ..., "lstrip": ...}, without its id; `what` is what messages call it.
[[nodiscard]] absl::StatusOr<AddedToken> AddedTokenOf(const Json& entry, absl::string_view what);

}  // namespace distill
