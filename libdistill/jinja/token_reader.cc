#include "libdistill/jinja/token_reader.h"

#include "absl/strings/str_cat.h"

namespace distill::jinja {

bool TokenReader::SkipOperator(absl::string_view text) {
  if (!IsOperator(text)) return false;
  Advance();
  return true;
}

bool TokenReader::SkipName(absl::string_view text) {
  if (!IsName(text)) return false;
  Advance();
  return true;
}

absl::Status TokenReader::ErrorHere(absl::string_view message) const { return ErrorAt(Now().line, message); }

std::string TokenReader::Describe() const {
  switch (Now().kind) {
    case Token::Kind::kEnd:
      return "the template's end";
    case Token::Kind::kBlockEnd:
      return "'%}'";
    case Token::Kind::kOutputEnd:
      return "'}}'";
    case Token::Kind::kString:
      return "a string";
    default:
      return absl::StrCat("'", Now().text, "'");
  }
}

absl::Status TokenReader::ExpectOperator(absl::string_view text) {
  if (SkipOperator(text)) return absl::OkStatus();
  return ErrorHere(absl::StrCat("expected '", text, "', but found ", Describe()));
}

absl::StatusOr<std::string> TokenReader::ExpectName() {
  if (Now().kind != Token::Kind::kName) return ErrorHere(absl::StrCat("expected a name, but found ", Describe()));
  std::string name = Now().text;
  Advance();
  return name;
}

}  // namespace distill::jinja
