// Rows whose columns are one question and its answer, and how they become conversations (docs/formats.md, "Rows").
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/json_value.h"
#include "libdistill/text/conversation.h"

namespace distill {

// Whether the row, an object, has the columns of one of the forms.
bool IsSingleTurn(const JsonValue& row);
// Whether that form reads a column of this name.
bool IsReadOfSingleTurn(const JsonValue& row, absl::string_view name);
// "prompt and completion, question and answer, ...".
std::string SingleTurnColumns();

// A system message where the row has one, the user's, and the assistant's. prompt and completion may also be lists of
// messages (role, content), of which those of the prompt have no loss. InvalidArgument: a column that is no text.
[[nodiscard]] absl::StatusOr<std::vector<ChatMessage>> ParseSingleTurn(const JsonValue& row);

}  // namespace distill
