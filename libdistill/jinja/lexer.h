// Template text to tokens, with jinja2's whitespace control: "-" and "+" signs, trim_blocks and lstrip_blocks both on
// (as transformers sets them), one newline at the end of the template dropped.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill::jinja {

struct Token {
  enum class Kind {
    kText,
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };

  Kind kind = Kind::kEnd;
  std::string text;  // of a string: its value
  int line = 1;
};

// The last token is kEnd. InvalidArgument: "line 3: ...".
absl::StatusOr<std::vector<Token>> Lex(absl::string_view source);

absl::Status ErrorAt(int line, absl::string_view message);

// literals.cc: a number or a string as a template writes it, after Python's.
struct Literal {
  Token::Kind kind = Token::Kind::kString;  // or kInteger, kFloat
  std::string text;                         // of a string: its value; of a number: without "_"
  size_t end = 0;                           // of the source, behind it
};

// The one that begins there, with a digit or a quote. InvalidArgument: a string that is not closed, or a broken escape
// within it; with the line at which it begins.
absl::StatusOr<Literal> ReadLiteral(absl::string_view source, size_t begin, int line);

}  // namespace distill::jinja
