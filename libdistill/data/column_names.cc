#include "libdistill/data/column_names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace distill {

absl::StatusOr<ColumnNames> ColumnNames::Parse(absl::string_view text) {
  ColumnNames columns;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::vector<std::string> sides = absl::StrSplit(part, '=');
    if (sides.size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat("dataset_columns has '", absl::StripAsciiWhitespace(part),
                                                     "'; it is NAME=COLUMN, separated by commas: messages=chat"));
    }
    const std::string name(absl::StripAsciiWhitespace(sides[0])), column(absl::StripAsciiWhitespace(sides[1]));
    const bool is_twice =
        std::any_of(columns.names_.begin(), columns.names_.end(), [&](const auto& e) { return e.first == name; });
    if (name.empty() || column.empty() || is_twice) {
      return absl::InvalidArgumentError(
          absl::StrCat("dataset_columns has '", absl::StripAsciiWhitespace(part), "', ",
                       is_twice ? "whose name was given before" : "of which a side is empty"));
    }
    columns.names_.emplace_back(name, column);
  }
  return columns;
}

absl::Status ColumnNames::Rename(JsonValue& row) const {
  if (names_.empty() || row.kind != JsonValue::Kind::kObject) return absl::OkStatus();
  std::vector<std::pair<std::string, JsonValue>> renamed;
  for (const auto& [name, column] : names_) {
    const JsonValue* value = row.Find(column);
    if (value == nullptr) {
      const std::string there = absl::StrJoin(row.members, ", ", [](std::string* out, const auto& member) {
        absl::StrAppend(out, "'", member.first, "'");
      });
      return absl::InvalidArgumentError(
          absl::StrCat("there is no column '", column, "', which dataset_columns names; the row has ", there));
    }
    renamed.emplace_back(name, *value);
  }
  std::erase_if(row.members, [&](const auto& member) {
    return std::any_of(names_.begin(), names_.end(),
                       [&](const auto& names) { return member.first == names.first || member.first == names.second; });
  });
  for (auto& member : renamed) row.members.push_back(std::move(member));
  return absl::OkStatus();
}

}  // namespace distill
