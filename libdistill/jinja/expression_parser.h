// Expressions of the template language, by recursive descent over jinja2's grammar. The parser of statements builds
// on it.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/jinja/ast.h"
#include "libdistill/jinja/lexer.h"

namespace distill::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  using Result = absl::StatusOr<ExpressionPtr>;

  // Bounds the recursion, and so the stack.
  static constexpr int kMaxNesting = 100;
  static constexpr int kMaxHeight = 400;

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

  // With or without "x if y else z" at the top.
  Result ParseExpression(bool with_condition = true);
  // One expression, or several with commas between them as a tuple.
  Result ParseTuple(bool with_condition = true);
  Result ParsePrimary();

  Result Make(Expression::Kind kind, int line, std::string name, std::vector<ExpressionPtr> children) const;

 private:
  Result ParseConditional();
  Result ParseBinary(int level);
  Result ParseNot();
  Result ParseCompare();
  Result ParsePower();
  Result ParseUnary(bool with_filter);
  Result ParsePostfix(ExpressionPtr node);
  Result ParseFilterOrTest(ExpressionPtr node);
  Result ParseTest(ExpressionPtr node);
  Result ParseSubscript(ExpressionPtr node);
  Result ParseConstant();
  Result ParseParenthesized();
  Result ParseDict();
  absl::StatusOr<std::vector<ExpressionPtr>> ParseItems(absl::string_view close);
  absl::Status ParseArguments(Expression* call);
  absl::Status Grow(Expression* node) const;
  bool AtEndOfTuple() const;

  std::vector<Token> tokens_;
  size_t position_ = 0;
  int nesting_ = 0;
};

}  // namespace distill::jinja
