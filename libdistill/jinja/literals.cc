#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/lexer.h"

namespace distill::jinja {
namespace {

using Kind = Token::Kind;

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
char At(absl::string_view source, size_t position) { return position < source.size() ? source[position] : '\0'; }

Literal ReadNumber(absl::string_view source, size_t begin) {
  const auto at = [source](size_t position) { return At(source, position); };
  const auto digits = [&at](size_t i) {
    while (IsDigit(at(i)) || (at(i) == '_' && IsDigit(at(i + 1)))) ++i;
    return i;
  };
  const bool after_dot = begin > 0 && source[begin - 1] == '.';
  size_t end = digits(begin);
  bool is_float = false;
  if (!after_dot && at(end) == '.' && IsDigit(at(end + 1))) {
    is_float = true;
    end = digits(end + 1);
  }
  if (!after_dot && (at(end) == 'e' || at(end) == 'E')) {
    const size_t exponent = end + 1 + (at(end + 1) == '+' || at(end + 1) == '-');
    if (IsDigit(at(exponent))) {
      is_float = true;
      end = digits(exponent);
    }
  }
  std::string text(source.substr(begin, end - begin));
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  return {is_float ? Kind::kFloat : Kind::kInteger, std::move(text), end};
}

// A character by its number, in hexadecimal or octal digits; *i goes from the backslash to the last digit.
bool ReadCodePoint(absl::string_view source, size_t* i, std::string* value) {
  const char escape = At(source, *i + 1);
  const int hex_digits = escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
  const bool octal = hex_digits == 0;
  size_t end = *i + (octal ? 1 : 2);
  const size_t limit = end + (octal ? 3 : hex_digits);
  uint64_t c = 0;
  for (; end < limit; ++end) {
    const auto digit = static_cast<unsigned char>(At(source, end));
    if (octal ? digit < '0' || digit > '7' : !std::isxdigit(digit)) break;
    c = octal ? c * 8 + (digit - '0') : c * 16 + (std::isdigit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
  }
  if ((!octal && end != limit) || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return false;
  AppendUtf8(static_cast<char32_t>(c), value);
  *i = end - 1;
  return true;
}

// One escape of Python's string literals; *i goes from the backslash to the last character taken. The backslash of an
// unknown escape stays as it is.
bool ReadEscape(absl::string_view source, size_t* i, std::string* value) {
  static constexpr absl::string_view kEscapes = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
  const char escape = At(source, *i + 1);
  if (escape == '\n') {
    ++*i;
    return true;
  }
  if (const size_t known = kEscapes.find(escape); known != absl::string_view::npos) {
    value->push_back(kMeanings[known]);
    ++*i;
    return true;
  }
  if (escape == 'x' || escape == 'u' || escape == 'U' || (escape >= '0' && escape <= '7')) {
    return ReadCodePoint(source, i, value);
  }
  value->push_back('\\');
  return true;
}

absl::StatusOr<Literal> ReadString(absl::string_view source, size_t begin, int line) {
  const char quote = source[begin];
  std::string value;
  size_t i = begin + 1;
  for (; i < source.size() && source[i] != quote; ++i) {
    if (source[i] != '\\') {
      value.push_back(source[i]);
    } else if (!ReadEscape(source, &i, &value)) {
      return ErrorAt(line, "a broken \\ escape in a string");
    }
  }
  if (i >= source.size()) return ErrorAt(line, "a string is not closed");
  return Literal{Kind::kString, std::move(value), i + 1};
}

}  // namespace

absl::StatusOr<Literal> ReadLiteral(absl::string_view source, size_t begin, int line) {
  if (IsDigit(source[begin])) return ReadNumber(source, begin);
  return ReadString(source, begin, line);
}

}  // namespace distill::jinja
