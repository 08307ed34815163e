// JSON Lines: one JSON value a line, read line by line (docs/formats.md, "JSONL").
//
//   DISTILL_ASSIGN_OR_RETURN(auto reader, JsonlReader::Open("train.jsonl"));
//   for (;;) {
//     DISTILL_ASSIGN_OR_RETURN(std::optional<JsonlRow> row, reader.Next());
//     if (!row) break;
//     const JsonValue* text = row->value.Find("text");
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

struct JsonValue {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  JsonValue();  // null; defined where `members` is of a complete type

  Kind kind = Kind::kNull;
  bool boolean = false;
  double number = 0;
  std::optional<int64_t> integer;  // of a number that is written as one, and fits
  std::string text;
  std::vector<JsonValue> items;                            // of an array
  std::vector<std::pair<std::string, JsonValue>> members;  // of an object, in the file's order

  // The member of an object; nullptr where there is none, or where this is no object.
  const JsonValue* Find(absl::string_view name) const;
};

struct JsonlRow {
  int64_t line = 0;  // from 1
  JsonValue value;
};

class JsonlReader {
 public:
  static constexpr size_t kMaxLineBytes = size_t{64} << 20;
  static constexpr size_t kMaxDepth = 64;

  // NotFound: no such file. InvalidArgument: a folder, or a path that is not local.
  [[nodiscard]] static absl::StatusOr<JsonlReader> Open(const std::string& path);

  JsonlReader(JsonlReader&&) noexcept;
  JsonlReader& operator=(JsonlReader&&) noexcept;
  ~JsonlReader();

  // The next row; nullopt at the end. Blank lines are skipped, but counted. InvalidArgument, with file:line: broken
  // JSON, bad UTF-8, nesting beyond kMaxDepth, a line beyond kMaxLineBytes; the next call returns the row after it.
  // ResourceExhausted: no memory for the line. Unavailable: the disk failed.
  [[nodiscard]] absl::StatusOr<std::optional<JsonlRow>> Next();

  // Of the file, up to the end of the row that was read last.
  int64_t bytes_read() const;

 private:
  struct Impl;
  explicit JsonlReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One value. InvalidArgument: broken JSON, bad UTF-8, or nested deeper than rows may be.
[[nodiscard]] absl::StatusOr<JsonValue> ParseJson(absl::string_view text);

}  // namespace distill
