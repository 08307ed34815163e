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

// The code point at `position`, which moves on to the next one. Needs position < text.size().
char32_t NextCodePoint(absl::string_view text, size_t* position);
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
