// Fields of the JSON files of a tokenizer's folder. Internal to text/.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/text/added_tokens.h"

namespace distill {

using Json = nlohmann::json;

inline absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(std::string(what)); }

// DataLoss: no JSON. InvalidArgument: no object.
[[nodiscard]] absl::StatusOr<Json> ParseObject(const std::string& text);

// A member of an object; null where it is absent, or `object` is no object.
const Json& Get(const Json& object, const char* key);

// The string "type", or "".
std::string TypeOf(const Json& object);

[[nodiscard]] absl::StatusOr<bool> GetBool(const Json& object, const char* key, bool otherwise);

[[nodiscard]] absl::StatusOr<int32_t> GetId(const Json& value, const std::string& token);

// {"content": ..., "special": ..., "lstrip": ...}, without its id; `what` is what messages call it.
[[nodiscard]] absl::StatusOr<AddedToken> AddedTokenOf(const Json& entry, absl::string_view what);

}  // namespace distill
