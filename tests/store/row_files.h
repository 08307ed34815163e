// What a file of rows holds, as one text, for tests.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/store/row_reader.h"

namespace distill::testing {

inline std::string AsText(const JsonValue& value) {
  std::string text;
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return value.boolean ? "true" : "false";
    case JsonValue::Kind::kNumber:
      return value.integer ? absl::StrCat(*value.integer) : absl::StrCat(value.number);
    case JsonValue::Kind::kString:
      return absl::StrCat("'", value.text, "'");
    case JsonValue::Kind::kArray:
      for (const JsonValue& item : value.items) absl::StrAppend(&text, text.empty() ? "" : ",", AsText(item));
      return absl::StrCat("[", text, "]");
    case JsonValue::Kind::kObject:
      for (const auto& [name, member] : value.members) {
        absl::StrAppend(&text, text.empty() ? "" : ",", name, ":", AsText(member));
      }
      return absl::StrCat("{", text, "}");
  }
  return text;
}

// A row a line, "2 {a:'x'}", or what is wrong with it; the error that ended it, or that rows are counted wrongly, last.
inline std::string RowsOf(const std::string& path, const RowFileOptions& options = {}) {
  const auto file = OpenFile(path);
  if (!file.ok()) return file.status().ToString();
  const auto reader = OpenRows(*file, options);
  if (!reader.ok()) return reader.status().ToString();
  std::string text;
  for (;;) {
    const auto chunk = (*reader)->NextChunk();
    if (!chunk.ok()) return text + chunk.status().ToString();
    if (*chunk == nullptr) return text;
    int64_t rows = 0;
    const absl::Status status = (*chunk)->ForEach([&](const absl::StatusOr<FileRow>& row) {
      ++rows;
      absl::StrAppend(&text, row.ok() ? absl::StrCat(row->number, " ", AsText(row->value)) : row.status().ToString(),
                      "\n");
      return true;
    });
    if (!status.ok()) return text + status.ToString();
    if ((*chunk)->CountRows() != rows) return absl::StrCat(text, (*chunk)->CountRows(), " rows are counted of ", rows);
  }
}

}  // namespace distill::testing
