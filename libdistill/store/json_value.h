// A JSON value in memory: what rows of data are, whatever their file's format.
//
//   DISTILL_ASSIGN_OR_RETURN(const JsonValue row, ParseJson(R"({"text": "..."})"));
//   const JsonValue* text = row.Find("text");
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
  // That the value takes, with all that is in it.
  int64_t MemoryBytes() const;
};

// Values may not be nested deeper than this.
constexpr size_t kMaxJsonDepth = 64;

// One value. InvalidArgument: broken JSON, bad UTF-8, or nested deeper than rows may be.
[[nodiscard]] absl::StatusOr<JsonValue> ParseJson(absl::string_view text);

// The same again and again, without new memory for the parser each time. One thread at a time.
class JsonParser {
 public:
  JsonParser();
  ~JsonParser();
  JsonParser(const JsonParser&) = delete;
  JsonParser& operator=(const JsonParser&) = delete;

  // Bytes behind a text that must be readable, whatever they are.
  static constexpr size_t kPadding = 64;
  // ResourceExhausted: no memory for a text of this size.
  [[nodiscard]] absl::StatusOr<JsonValue> Parse(absl::string_view padded_text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distill
