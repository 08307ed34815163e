// Reads the JSON of the hub's answers. Whatever form an answer has, nothing here throws.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/http.h"

namespace distill {

// The object that an answer is. Internal: it is none; the message begins with "cannot", `what` was asked for, and shows
// the answer's beginning, so it is not for answers with addresses that are signed.
[[nodiscard]] absl::StatusOr<nlohmann::json> ParseHubAnswer(absl::string_view what, const HttpResponse& answer);

// Text of a member; "" where there is none.
std::string TextIn(const nlohmann::json& value, const char* name);

}  // namespace distill
