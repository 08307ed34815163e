// What operators of an expression work on: constants, names, brackets, and what is written behind them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/jinja/ast.h"
#include "libdistill/jinja/token_reader.h"

namespace distill::jinja {

class OperandParser : public TokenReader {
 public:
  using TokenReader::TokenReader;
  virtual ~OperandParser() = default;

 protected:
  using Result = absl::StatusOr<ExpressionPtr>;

  // Whole expressions, which brackets hold. With or without "x if y else z" at the top.
  virtual Result ParseExpression(bool with_condition = true) = 0;
  // One expression, or several with commas between them as a tuple.
  Result ParseTuple(bool with_condition = true);
  Result ParsePrimary();
  // Attributes, subscripts and calls behind an operand.
  Result ParsePostfix(ExpressionPtr node);
  Result ParseFilterOrTest(ExpressionPtr node);

  Result Make(Expression::Kind kind, int line, std::string name, std::vector<ExpressionPtr> children) const;

 private:
  // Bounds the recursion of whoever walks the tree, and so the stack.
  static constexpr int kMaxHeight = 400;

  Result ParseTest(ExpressionPtr node);
  Result ParseSubscript(ExpressionPtr node);
  Result ParseConstant();
  Result ParseParenthesized();
  Result ParseDict();
  absl::StatusOr<std::vector<ExpressionPtr>> ParseItems(absl::string_view close);
  absl::Status ParseArguments(Expression* call);
  absl::Status Grow(Expression* node) const;
  bool AtEndOfTuple() const;
};

}  // namespace distill::jinja
