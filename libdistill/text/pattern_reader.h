// Reads a pattern of Oniguruma's syntax from left to right, and says in each error where in it something stands.
// Internal to text/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

class PatternReader {
 public:
  // `pattern` is valid UTF-8, and outlives the reader.
  explicit PatternReader(absl::string_view pattern) : pattern_(pattern) {}

  bool at_end() const { return position_ == pattern_.size(); }
  size_t position() const { return position_; }
  void GoTo(size_t position) { position_ = position; }
  absl::string_view rest() const { return pattern_.substr(position_); }

  // Of a pattern that is not at its end.
  char32_t Next();
  // Whether `text` follows; then it is read.
  bool Take(absl::string_view text);
  // What stands up to `end`, which is read, too. InvalidArgument: there is no `end`.
  [[nodiscard]] absl::StatusOr<absl::string_view> TakeUpTo(absl::string_view end, size_t begin);

  // A number of at most `most` digits in base 8, 10 or 16; *count: how many digits there are.
  uint64_t Digits(int base, int most, int* count);

  // The character that the escape at byte `begin`, whose backslash is read, stands for: \n, \x41, \x{4e00}, \u4e00,
  // \xE4\xB8\x80, \101, \cA, \. and any other character. `in_class`: within brackets, where bytes of one character
  // are written alike.
  [[nodiscard]] absl::StatusOr<char32_t> EscapedCharacter(size_t begin, bool in_class);

  // "'(?~' at character 5: is not supported": what stands from byte `begin` to here.
  absl::Status Error(size_t begin, absl::string_view what) const;

 private:
  [[nodiscard]] absl::StatusOr<char32_t> CodePoint(size_t begin, uint64_t value) const;
  [[nodiscard]] absl::StatusOr<char32_t> Braced(size_t begin, int base, int most);
  [[nodiscard]] absl::StatusOr<char32_t> Control(size_t begin, char32_t kind);
  // Of the first byte and those that follow it.
  [[nodiscard]] absl::StatusOr<char32_t> OfBytes(size_t begin, uint64_t first, int base, bool in_class);

  const absl::string_view pattern_;
  size_t position_ = 0;
};

}  // namespace distill
