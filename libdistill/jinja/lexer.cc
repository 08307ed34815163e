#include "libdistill/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/value.h"

namespace distill::jinja {
namespace {

constexpr size_t kMaxSourceBytes = 4 << 20;  // of a template; published ones have 30,000 at most

bool IsSpace(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool StartsName(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }

// "\r\n" and "\r" become "\n"; the last newline goes.
std::string NormalizeNewlines(absl::string_view source) {
  std::string text = absl::StrReplaceAll(source, {{"\r\n", "\n"}, {"\r", "\n"}});
  if (absl::EndsWith(text, "\n")) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(absl::string_view source) : source_(NormalizeNewlines(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (position_ < source_.size()) DISTILL_RETURN_IF_ERROR(LexOne());
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  using Kind = Token::Kind;

  absl::Status LexOne();
  absl::Status LexComment();
  absl::Status LexTag(bool block);
  absl::Status LexInTag(std::string* open);
  void LexNumber();
  absl::Status LexString();
  bool ReadEscape(size_t* i, std::string* value) const;
  bool ReadCodePoint(size_t* i, std::string* value) const;
  absl::StatusOr<bool> LexRaw();
  void AddText(size_t begin, size_t end, char sign, bool is_output);

  char At(size_t position) const { return position < source_.size() ? source_[position] : '\0'; }
  void Add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void Move(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + position_, source_.begin() + end, '\n'));
    position_ = end;
  }
  // What stands here up to `end`.
  void Take(Kind kind, size_t end) {
    Add(kind, source_.substr(position_, end - position_));
    Move(end);
  }
  size_t AfterSpace(size_t position) const {
    while (IsSpace(At(position))) ++position;
    return position;
  }
  // After the tag's end: "-" takes all whitespace along, a block or comment without "+" one newline.
  void EndTag(char sign, bool is_output) {
    if (sign == '-') {
      Move(AfterSpace(position_));
    } else if (sign != '+' && !is_output && At(position_) == '\n') {
      Move(position_ + 1);
    }
  }

  const std::string source_;
  size_t position_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

// The text before a tag, which loses its trailing whitespace to a "-" sign, or the indentation of a block or comment
// that stands first in its line.
void Lexer::AddText(size_t begin, size_t end, char sign, bool is_output) {
  absl::string_view text = absl::string_view(source_).substr(begin, end - begin);
  if (sign == '-') {
    text = absl::StripTrailingAsciiWhitespace(text);
  } else if (sign != '+' && !is_output) {
    const size_t newline = text.rfind('\n');
    const size_t start = newline == absl::string_view::npos ? 0 : newline + 1;
    const bool starts_line = start > 0 || begin == 0 || source_[begin - 1] == '\n';
    if (starts_line && absl::StripAsciiWhitespace(text.substr(start)).empty()) {
      text = text.substr(0, start);
    }
  }
  if (!text.empty()) Add(Kind::kText, std::string(text));
}

absl::Status Lexer::LexOne() {
  size_t tag = position_;
  while (tag < source_.size() &&
         !(source_[tag] == '{' && (At(tag + 1) == '{' || At(tag + 1) == '%' || At(tag + 1) == '#'))) {
    ++tag;
  }
  if (tag == source_.size()) {
    Add(Kind::kText, source_.substr(position_));
    position_ = tag;
    return absl::OkStatus();
  }
  const char kind = source_[tag + 1];
  const char sign = At(tag + 2) == '-' || At(tag + 2) == '+' ? At(tag + 2) : '\0';
  AddText(position_, tag, sign, kind == '{');
  Move(tag + (sign == '\0' ? 2 : 3));
  if (kind == '#') return LexComment();
  if (kind == '%') {
    DISTILL_ASSIGN_OR_RETURN(const bool raw, LexRaw());
    if (raw) return absl::OkStatus();
  }
  return LexTag(kind == '%');
}

absl::Status Lexer::LexComment() {
  const size_t end = source_.find("#}", position_);
  if (end == std::string::npos) return ErrorAt(line_, "a comment is not closed by #}");
  const char sign = end > position_ ? source_[end - 1] : '\0';
  Move(end + 2);
  EndTag(sign, false);
  return absl::OkStatus();
}

// {% raw %} ... {% endraw %}: text as it is. False where this block is another one.
absl::StatusOr<bool> Lexer::LexRaw() {
  size_t i = AfterSpace(position_);
  if (source_.compare(i, 3, "raw") != 0) return false;
  i = AfterSpace(i + 3);
  const bool strips = At(i) == '-';
  if (source_.compare(i + strips, 2, "%}") != 0) return false;
  Move(strips ? AfterSpace(i + 3) : i + 2);
  for (size_t tag = source_.find("{%", position_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
    size_t end = tag + 2;
    const char sign = At(end) == '-' || At(end) == '+' ? source_[end++] : '\0';
    end = AfterSpace(end);
    if (source_.compare(end, 6, "endraw") != 0) continue;
    end = AfterSpace(end + 6);
    const char close = At(end) == '-' || At(end) == '+' ? source_[end++] : '\0';
    if (source_.compare(end, 2, "%}") != 0) continue;
    AddText(position_, tag, sign, false);
    Move(end + 2);
    EndTag(close, false);
    return true;
  }
  return ErrorAt(line_, "{% raw %} is not closed by {% endraw %}");
}

absl::Status Lexer::LexTag(bool block) {
  Add(block ? Kind::kBlockBegin : Kind::kOutputBegin, "");
  const int begin_line = line_;
  const absl::string_view close = block ? "%}" : "}}";
  std::string open;  // brackets that are not closed yet
  for (;;) {
    Move(AfterSpace(position_));
    if (position_ >= source_.size()) return ErrorAt(begin_line, absl::StrCat("a tag is not closed by ", close));
    const bool has_sign = At(position_) == '-' || (block && At(position_) == '+');
    if (open.empty() && absl::string_view(source_).substr(position_ + has_sign, 2) == close) {
      const char sign = has_sign ? At(position_) : '\0';
      Add(block ? Kind::kBlockEnd : Kind::kOutputEnd, "");
      Move(position_ + has_sign + 2);
      EndTag(sign, !block);
      return absl::OkStatus();
    }
    DISTILL_RETURN_IF_ERROR(LexInTag(&open));
  }
}

absl::Status Lexer::LexInTag(std::string* open) {
  const char c = At(position_);
  if (StartsName(c)) {
    size_t end = position_;
    while (StartsName(At(end)) || IsDigit(At(end))) ++end;
    Take(Kind::kName, end);
    return absl::OkStatus();
  }
  if (c == '"' || c == '\'') return LexString();
  if (IsDigit(c)) {
    LexNumber();
    return absl::OkStatus();
  }
  for (const char* two : {"**", "//", "==", "!=", ">=", "<="}) {
    if (source_.compare(position_, 2, two) != 0) continue;
    Take(Kind::kOperator, position_ + 2);
    return absl::OkStatus();
  }
  if (absl::string_view("+-*/%~[](){}<>=.:|,").find(c) == absl::string_view::npos || c == '\0') {
    return ErrorAt(line_, absl::StrCat("unexpected character '", std::string(1, c), "'"));
  }
  if (c == '(' || c == '[' || c == '{') open->push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
  if (c == ')' || c == ']' || c == '}') {
    if (open->empty() || open->back() != c) {
      return ErrorAt(line_, absl::StrCat("unexpected '", std::string(1, c), "'"));
    }
    open->pop_back();
  }
  Take(Kind::kOperator, position_ + 1);
  return absl::OkStatus();
}

// As Python writes it; of a.0.1 each number is a subscript of its own.
void Lexer::LexNumber() {
  const auto digits = [this](size_t i) {
    while (IsDigit(At(i)) || (At(i) == '_' && IsDigit(At(i + 1)))) ++i;
    return i;
  };
  const char kind = At(position_) == '0' ? absl::ascii_tolower(static_cast<unsigned char>(At(position_ + 1))) : '\0';
  if (kind == 'x' || kind == 'o' || kind == 'b') {
    const auto is_digit = [kind](char c) {
      return kind == 'x' ? absl::ascii_isxdigit(static_cast<unsigned char>(c))
                         : c >= '0' && c <= (kind == 'o' ? '7' : '1');
    };
    size_t end = position_ + 2;
    while (is_digit(At(end)) || (At(end) == '_' && is_digit(At(end + 1)))) ++end;
    if (end > position_ + 2) {
      Add(Kind::kInteger, absl::StrReplaceAll(source_.substr(position_, end - position_), {{"_", ""}}));
      return Move(end);
    }
  }
  const bool after_dot = position_ > 0 && source_[position_ - 1] == '.';
  size_t end = digits(position_);
  bool is_float = false;
  if (!after_dot && At(end) == '.' && IsDigit(At(end + 1))) {
    is_float = true;
    end = digits(end + 1);
  }
  if (!after_dot && (At(end) == 'e' || At(end) == 'E')) {
    const size_t exponent = end + 1 + (At(end + 1) == '+' || At(end + 1) == '-');
    if (IsDigit(At(exponent))) {
      is_float = true;
      end = digits(exponent);
    }
  }
  Add(is_float ? Kind::kFloat : Kind::kInteger,
      absl::StrReplaceAll(source_.substr(position_, end - position_), {{"_", ""}}));
  Move(end);
}

absl::Status Lexer::LexString() {
  std::string value;
  size_t i = position_ + 1;
  for (; i < source_.size() && source_[i] != source_[position_]; ++i) {
    if (source_[i] != '\\') {
      value.push_back(source_[i]);
    } else if (!ReadEscape(&i, &value)) {
      return ErrorAt(line_, "a broken \\ escape in a string");
    }
  }
  if (i >= source_.size()) return ErrorAt(line_, "a string is not closed");
  Add(Kind::kString, std::move(value));
  Move(i + 1);
  return absl::OkStatus();
}

// One escape of Python's string literals; *i goes from the backslash to the last character taken. The backslash of an
// unknown escape stays as it is.
bool Lexer::ReadEscape(size_t* i, std::string* value) const {
  static constexpr absl::string_view kEscapes = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
  const char escape = At(*i + 1);
  if (escape == 'x' || escape == 'u' || escape == 'U' || (escape >= '0' && escape <= '7')) {
    return ReadCodePoint(i, value);
  }
  const size_t known = kEscapes.find(escape);
  if (escape != '\n') value->push_back(known == absl::string_view::npos ? '\\' : kMeanings[known]);
  *i += escape == '\n' || known != absl::string_view::npos;
  return true;
}

// A character by its number, in hexadecimal or octal digits.
bool Lexer::ReadCodePoint(size_t* i, std::string* value) const {
  const char escape = source_[*i + 1];
  const int64_t hex_digits = escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
  const char* begin = source_.data() + *i + (hex_digits == 0 ? 1 : 2);
  const char* limit = begin + std::min(hex_digits == 0 ? 3 : hex_digits, source_.data() + source_.size() - begin);
  uint32_t c = 0;
  const char* end = std::from_chars(begin, limit, c, hex_digits == 0 ? 8 : 16).ptr;
  if ((hex_digits != 0 && end - begin != hex_digits) || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return false;
  AppendUtf8(static_cast<char32_t>(c), value);
  *i = end - source_.data() - 1;
  return true;
}

}  // namespace

absl::Status ErrorAt(int line, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", message));
}

absl::StatusOr<std::vector<Token>> Lex(absl::string_view source) {
  if (source.size() > kMaxSourceBytes)
    return Error(absl::StrCat("a template of more than ", kMaxSourceBytes, " bytes"));
  if (!IsValidUtf8(source)) return Error("the template is not UTF-8");
  return Lexer(source).Run();
}

}  // namespace distill::jinja
