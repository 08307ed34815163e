#include "libdistill/jinja/lexer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill::jinja {
namespace {

bool IsSpace(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool StartsName(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }

// "\r\n" and "\r" become "\n"; the last newline goes.
std::string NormalizeNewlines(absl::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text.push_back(source[i]);
    }
  }
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
  absl::Status LexLiteral();
  bool LexRaw();
  void AddText(size_t begin, size_t end, char sign, bool is_output);

  char At(size_t position) const { return position < source_.size() ? source_[position] : '\0'; }
  bool Sees(absl::string_view text) const {
    return absl::StartsWith(absl::string_view(source_).substr(position_), text);
  }
  void Add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void Move(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + position_, source_.begin() + end, '\n'));
    position_ = end;
    starts_line_ = position_ > 0 && source_[position_ - 1] == '\n';
  }
  void SkipSpace() {
    size_t end = position_;
    while (end < source_.size() && IsSpace(source_[end])) ++end;
    if (end > position_) Move(end);
  }
  // After the tag's end: "-" takes all whitespace along, a block or comment without "+" one newline.
  void EndTag(char sign, bool is_output) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && !is_output && At(position_) == '\n') {
      Move(position_ + 1);
    }
  }

  const std::string source_;
  size_t position_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
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
    if ((start > 0 || starts_line_) && absl::StripAsciiWhitespace(text.substr(start)).empty()) {
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
  if (kind == '%' && LexRaw()) return absl::OkStatus();
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
bool Lexer::LexRaw() {
  size_t i = position_;
  while (IsSpace(At(i))) ++i;
  if (source_.compare(i, 3, "raw") != 0) return false;
  i += 3;
  while (IsSpace(At(i))) ++i;
  const bool strips = At(i) == '-';
  if (source_.compare(i + strips, 2, "%}") != 0) return false;
  Move(i + strips + 2);
  if (strips) SkipSpace();
  for (size_t tag = source_.find("{%", position_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
    size_t end = tag + 2;
    const char sign = At(end) == '-' || At(end) == '+' ? source_[end++] : '\0';
    while (IsSpace(At(end))) ++end;
    if (source_.compare(end, 6, "endraw") != 0) continue;
    end += 6;
    while (IsSpace(At(end))) ++end;
    const char close = At(end) == '-' || At(end) == '+' ? source_[end++] : '\0';
    if (source_.compare(end, 2, "%}") != 0) continue;
    AddText(position_, tag, sign, false);
    Move(end + 2);
    EndTag(close, false);
    return true;
  }
  return false;
}

absl::Status Lexer::LexTag(bool block) {
  Add(block ? Kind::kBlockBegin : Kind::kOutputBegin, "");
  const int begin_line = line_;
  const absl::string_view close = block ? "%}" : "}}";
  std::string open;  // brackets that are not closed yet
  for (;;) {
    SkipSpace();
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
    Add(Kind::kName, source_.substr(position_, end - position_));
    Move(end);
    return absl::OkStatus();
  }
  if (IsDigit(c) || c == '"' || c == '\'') return LexLiteral();
  for (const absl::string_view two : {"**", "//", "==", "!=", ">=", "<="}) {
    if (!Sees(two)) continue;
    Add(Kind::kOperator, std::string(two));
    Move(position_ + 2);
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
  Add(Kind::kOperator, std::string(1, c));
  Move(position_ + 1);
  return absl::OkStatus();
}

absl::Status Lexer::LexLiteral() {
  DISTILL_ASSIGN_OR_RETURN(Literal literal, ReadLiteral(source_, position_, line_));
  Add(literal.kind, std::move(literal.text));
  Move(literal.end);
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrorAt(int line, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", message));
}

absl::StatusOr<std::vector<Token>> Lex(absl::string_view source) { return Lexer(source).Run(); }

}  // namespace distill::jinja
