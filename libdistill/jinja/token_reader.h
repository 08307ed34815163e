// A template's tokens, read one after the other: what the parsers build on.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/jinja/lexer.h"

namespace distill::jinja {

class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& Now() const { return tokens_[position_]; }
  const Token& Ahead() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  void Advance() { position_ += position_ + 1 < tokens_.size(); }
  bool IsOperator(absl::string_view text) const { return Now().kind == Token::Kind::kOperator && Now().text == text; }
  bool IsName(absl::string_view text) const { return Now().kind == Token::Kind::kName && Now().text == text; }
  bool SkipOperator(absl::string_view text);
  bool SkipName(absl::string_view text);
  absl::Status ExpectOperator(absl::string_view text);
  absl::StatusOr<std::string> ExpectName();
  absl::Status ErrorHere(absl::string_view message) const;
  // "'endif'", "end of the block": what stands here.
  std::string Describe() const;

 private:
  std::vector<Token> tokens_;
  size_t position_ = 0;
};

}  // namespace distill::jinja
