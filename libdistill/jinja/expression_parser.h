// Expressions of the template language, by recursive descent over jinja2's grammar: their operators, over the operands
// of operand_parser.h. The parser of statements builds on it.
#pragma once

#include "libdistill/jinja/operand_parser.h"

namespace distill::jinja {

class ExpressionParser : public OperandParser {
 public:
  using OperandParser::OperandParser;

 protected:
  // Bounds the recursion, and so the stack.
  static constexpr int kMaxNesting = 100;

  Result ParseExpression(bool with_condition = true) override;

 private:
  Result ParseConditional();
  Result ParseBinary(int level);
  Result ParseNot();
  Result ParseCompare();
  Result ParsePower();
  Result ParseUnary(bool with_filter);

  int nesting_ = 0;
};

}  // namespace distill::jinja
