// What the columns of a user's rows are called, where they have other names than those that libdistill reads.
//
//   DISTILL_ASSIGN_OR_RETURN(auto names, ColumnNames::Parse("messages=chat, answer=reply"));
//   DISTILL_RETURN_IF_ERROR(names.Rename(row));   // its member "chat" is "messages" now
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/json_value.h"

namespace distill {

class ColumnNames {
 public:
  // NAME=COLUMN, separated by commas; empty: none is renamed. InvalidArgument: another form, or a name twice.
  [[nodiscard]] static absl::StatusOr<ColumnNames> Parse(absl::string_view text);

  // What was called NAME before gives way. InvalidArgument: the row, which is an object, has no such column. Other
  // values are left as they are.
  [[nodiscard]] absl::Status Rename(JsonValue& row) const;

 private:
  std::vector<std::pair<std::string, std::string>> names_;  // ours, the file's
};

}  // namespace distill
