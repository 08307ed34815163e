// What nlohmann::json accepts and we do not, refused before a document is built: nesting without end and keys given
// twice (of which a parser would silently keep the last).
//
//   DISTILL_RETURN_IF_ERROR(CheckJson(text, /*max_depth=*/8));
//   const auto document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);  // cannot fail now
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace distill {

// DataLoss: no JSON (with the line), nested deeper than max_depth, or a key twice in one object (named). Memory in use
// stays proportional to the keys of the text.
[[nodiscard]] absl::Status CheckJson(absl::string_view text, int max_depth);

}  // namespace distill
