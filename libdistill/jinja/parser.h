// Template text to a syntax tree, by recursive descent over jinja2's grammar.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/jinja/ast.h"
#include "libdistill/jinja/lexer.h"

namespace distill::jinja {

// InvalidArgument, of each function that fails: "line 3: ..." for bad syntax and for what is not supported.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  absl::StatusOr<ParsedTemplate> Run();

 private:
  using Result = absl::StatusOr<ExpressionPtr>;

  // Bound the recursion of the parser, and of whoever walks the tree, and so the stack.
  static constexpr int kMaxNesting = 100;
  static constexpr int kMaxHeight = 400;

  // parser.cc: tokens, one after the other.
  const Token& Now() const { return tokens_[position_]; }
  const Token& Ahead() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  bool IsLiteral() const {
    return Now().kind == Token::Kind::kString || Now().kind == Token::Kind::kInteger ||
           Now().kind == Token::Kind::kFloat;
  }
  void Advance() { position_ += position_ + 1 < tokens_.size(); }
  bool IsOperator(absl::string_view text) const { return Now().kind == Token::Kind::kOperator && Now().text == text; }
  bool IsName(absl::string_view text) const { return Now().kind == Token::Kind::kName && Now().text == text; }
  bool SkipOperator(absl::string_view text) { return Skip(IsOperator(text)); }
  bool SkipName(absl::string_view text) { return Skip(IsName(text)); }
  bool Skip(bool matches) {
    if (matches) Advance();
    return matches;
  }
  absl::Status ExpectOperator(absl::string_view text);
  absl::StatusOr<std::string> ExpectName();
  absl::Status EndTag(Token::Kind kind);
  absl::Status ErrorHere(absl::string_view message) const { return ErrorAt(Now().line, message); }
  // "expected WHAT, but found" what stands here.
  absl::Status Unexpected(absl::string_view expected) const;

  // parser.cc: statements up to "{% NAME", where NAME is one of `ends`; NAME is the current token then.
  absl::StatusOr<Block> ParseBlock(std::initializer_list<const char*> ends);
  // The same up to the end of "{% NAME %}".
  absl::StatusOr<Block> ParseBody(const char* end);
  // That of {% else %}, or none, up to the end of "{% NAME %}".
  absl::StatusOr<Block> ParseElse(const char* end);
  absl::StatusOr<Statement> ParseStatement();
  absl::Status ParseIf(Statement* statement);
  absl::Status ParseFor(Statement* statement);
  absl::Status ParseSet(Statement* statement);
  absl::Status ParseMacro(Statement* statement);
  absl::Status ParseCallBlock(Statement* statement);
  absl::Status ParseWith(Statement* statement);
  // "(a, b=1)" of a macro or call block.
  absl::Status ParseParameters(Statement* statement);
  // The body of a macro or call block, up to "{% NAME %}".
  absl::Status ParseMacroBody(Statement* statement, const char* end);
  // What is assigned to: a name, names within brackets or not, or, where `with_attributes`, attributes of a name.
  Result ParseTarget(bool with_attributes);
  Result ParseOneTarget(bool with_attributes);

  // expression_parser.cc: operators.
  // One level deeper than who calls it.
  Result ParseNested(absl::FunctionRef<Result()> parse);
  // With or without "x if y else z" at the top.
  Result ParseExpression(bool with_condition = true);
  Result ParseBinary(int level);
  Result ParseNot();
  Result ParseCompare();
  Result ParseUnary(bool with_filter);

  // operand_parser.cc: constants, names, brackets, and what is written behind them.
  // One expression, or several with commas between them as a tuple.
  Result ParseTuple(bool with_condition = true);
  Result ParsePrimary();
  // Attributes, subscripts and calls behind an operand.
  Result ParsePostfix(ExpressionPtr node);
  Result ParseFilterOrTest(ExpressionPtr node);
  Result ParseFilter(ExpressionPtr node);  // behind the "|"
  Result ParseTest(ExpressionPtr node);
  Result ParseSubscript(ExpressionPtr node);
  Result ParseConstant();
  Result ParseCall(ExpressionPtr callee);
  // What `parse` reads up to the bracket `close`, with commas between.
  absl::Status ParseItems(absl::string_view close, absl::FunctionRef<absl::Status()> parse);
  absl::Status ParseArguments(Expression* call);
  Result Make(Expression::Kind kind, int line, std::string name, std::vector<ExpressionPtr> children) const;
  absl::Status Grow(Expression* node) const;

  const std::vector<Token> tokens_;
  size_t position_ = 0;
  int depth_ = 0, loops_ = 0, nesting_ = 0;  // blocks, loops, and expressions within one another
  // Whether such a name has occurred since the macro began that is being read.
  bool uses_varargs_ = false, uses_kwargs_ = false, uses_caller_ = false;
  bool has_generation_ = false;
};

}  // namespace distill::jinja
