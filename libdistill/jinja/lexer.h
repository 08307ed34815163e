// Template text to tokens, with jinja2's whitespace control: "-" and "+" signs, trim_blocks and lstrip_blocks both on
// (as transformers sets them), one newline at the end of the template dropped.
#pragma once

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
  std::string text;  // of a string: its value; of a number: without "_"
  int line = 1;
};

// The last token is kEnd. InvalidArgument: "line 3: ...".
absl::StatusOr<std::vector<Token>> Lex(absl::string_view source);

absl::Status ErrorAt(int line, absl::string_view message);

}  // namespace distill::jinja
