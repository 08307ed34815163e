#include "libdistill/text/pattern_reader.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"

namespace distill {
namespace {

int ValueOf(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(digit));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
}

size_t SizeByLead(uint64_t lead) { return lead < 0xC2 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 1; }

}  // namespace

char32_t PatternReader::Next() { return NextCodePoint(pattern_, &position_); }

bool PatternReader::Take(absl::string_view text) {
  if (!absl::StartsWith(rest(), text)) return false;
  position_ += text.size();
  return true;
}

absl::StatusOr<absl::string_view> PatternReader::TakeUpTo(absl::string_view end, size_t begin) {
  const size_t size = rest().find(end);
  if (size == absl::string_view::npos) return Error(begin, absl::StrCat("has no '", end, "'"));
  const absl::string_view text = rest().substr(0, size);
  position_ += size + end.size();
  return text;
}

uint64_t PatternReader::Digits(int base, int most, int* count) {
  uint64_t value = 0;
  for (*count = 0; *count < most && !at_end() && ValueOf(pattern_[position_]) < base; ++*count) {
    value = value * static_cast<uint64_t>(base) + static_cast<uint64_t>(ValueOf(pattern_[position_++]));
  }
  return value;
}

absl::StatusOr<char32_t> PatternReader::CodePoint(size_t begin, uint64_t value) const {
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return Error(begin, "is no character of Unicode");
  return static_cast<char32_t>(value);
}

absl::StatusOr<char32_t> PatternReader::Braced(size_t begin, int base, int most) {
  const size_t brace = position_++;
  int count = 0;
  const uint64_t value = Digits(base, most, &count);
  if (count == 0) {
    // The letter by itself, and a brace after it.
    position_ = brace;
    return static_cast<char32_t>(pattern_[brace - 1]);
  }
  if (!Take("}")) return Error(begin, "is not one number in braces; write every character as an escape of its own");
  return CodePoint(begin, value);
}

absl::StatusOr<char32_t> PatternReader::OfBytes(size_t begin, uint64_t first, int base, bool in_class) {
  if (first > 0xFF) return Error(begin, "is no byte");
  std::string bytes(1, static_cast<char>(first));
  while (bytes.size() < SizeByLead(first)) {
    const bool is_hex = Take("\\x");
    int count = 0;
    const uint64_t value = is_hex || Take("\\") ? Digits(is_hex ? 16 : 8, is_hex ? 2 : 3, &count) : 0;
    if (count == 0 || value > 0xFF || (in_class && (base == 16) != is_hex)) {
      return Error(begin, "is a part of a character in UTF-8 without the bytes that follow it");
    }
    bytes.push_back(static_cast<char>(value));
  }
  if (!IsValidUtf8(bytes)) return Error(begin, "are no bytes of UTF-8");
  size_t at = 0;
  return NextCodePoint(bytes, &at);
}

// \cA, \C-A and \M-A.
absl::StatusOr<char32_t> PatternReader::Control(size_t begin, char32_t kind) {
  if (kind != 'c' && !Take("-")) return Error(begin, "has no '-'");
  if (at_end()) return Error(begin, "ends the pattern");
  const char32_t c = Next();
  if (c > 0x7F || c == '\\') return Error(begin, "is not supported; write the character as \\x{...}");
  if (kind == 'M') return c | 0x80;
  return c == '?' ? 0x7F : c & 0x9F;
}

absl::StatusOr<char32_t> PatternReader::EscapedCharacter(size_t begin, bool in_class) {
  if (at_end()) return Error(begin, "ends the pattern");
  const char32_t kind = Next();
  const bool has_brace = absl::StartsWith(rest(), "{");
  int count = 0;
  if (at_end() && (kind == 'x' || kind == 'u')) return kind;
  switch (kind) {
    case 'x':
      if (has_brace) return Braced(begin, 16, 8);
      return OfBytes(begin, Digits(16, 2, &count), 16, in_class);
    case 'o':
      return has_brace ? Braced(begin, 8, 11) : kind;
    case 'u': {
      const uint64_t value = Digits(16, 4, &count);
      return count == 4 ? CodePoint(begin, value) : Error(begin, "has not four hexadecimal digits");
    }
    case 'c':
    case 'C':
    case 'M':
      return Control(begin, kind);
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    case 'e':
      return 0x1B;
    case 'b':
      return '\b';
    default:
      break;
  }
  if (kind < '0' || kind > '7') return kind;
  --position_;
  return OfBytes(begin, Digits(8, 3, &count), 8, in_class);
}

absl::Status PatternReader::Error(size_t begin, absl::string_view what) const {
  constexpr size_t kShownCharacters = 20;
  std::string shown;
  size_t count = 0;
  for (size_t at = begin; at < position_ && count < kShownCharacters; ++count) {
    const size_t from = at;
    NextCodePoint(pattern_, &at);
    shown.append(pattern_.substr(from, at - from).data(), at - from);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", shown, "' at character ", CountCodePoints(pattern_.substr(0, begin)) + 1, " of the pattern ", what));
}

}  // namespace distill
