// UTF-8, code point by code point. Unless said otherwise, text is valid UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace distill {

bool IsValidUtf8(absl::string_view bytes);
// Every maximal part that is no UTF-8 becomes one U+FFFD (as Rust's from_utf8_lossy and Python's errors="replace" do).
std::string LossyUtf8(absl::string_view bytes);

// Where, from `begin` on, the first byte stands that is not of ASCII; text.size() where there is none.
size_t EndOfAscii(absl::string_view text, size_t begin);

// The code point at `position`, which moves on to the next one. Needs position < text.size().
inline char32_t NextCodePoint(absl::string_view text, size_t* position) {
  const auto byte = [&](size_t offset) -> char32_t {
    return *position + offset < text.size() ? static_cast<unsigned char>(text[*position + offset]) : 0u;
  };
  const char32_t first = byte(0);
  if (first < 0x80) {
    *position += 1;
    return first;
  }
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t c = first & (0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) c = c << 6 | (byte(i) & 0x3F);
  *position += length;
  return c;
}
void AppendUtf8(char32_t code_point, std::string* text);
std::vector<absl::string_view> CodePoints(absl::string_view text);
size_t CountCodePoints(absl::string_view text);

// The first byte of the last code point of `text`, which is not empty.
size_t LastCodePoint(absl::string_view text);

// Unicode's property White_Space.
bool IsWhitespace(char32_t code_point);
// How many bytes of white space `text` begins with, and how long it is without what it ends with.
size_t LeadingSpace(absl::string_view text);
size_t WithoutTrailingSpace(absl::string_view text);

}  // namespace distill
