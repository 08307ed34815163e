// Numbers and strings as a template writes them, after Python's.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/jinja/lexer.h"

namespace distill::jinja {

struct Literal {
  Token::Kind kind = Token::Kind::kString;  // or kInteger, kFloat
  std::string text;                         // of a string: its value; of a number: without "_"
  size_t end = 0;                           // of the source, behind it
};

// The one that begins there, with a digit or a quote. InvalidArgument: a string that is not closed, or a broken escape
// within it; with the line at which it begins.
absl::StatusOr<Literal> ReadLiteral(absl::string_view source, size_t begin, int line);

}  // namespace distill::jinja
