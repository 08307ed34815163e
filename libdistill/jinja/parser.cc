#include "libdistill/jinja/parser.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {

using StatementKind = Statement::Kind;

absl::StatusOr<ParsedTemplate> Parser::Run() {
  DISTILL_ASSIGN_OR_RETURN(Block body, ParseBlock({}));
  return ParsedTemplate{std::move(body), has_generation_};
}

absl::Status Parser::Unexpected(absl::string_view expected) const {
  const Token::Kind kind = Now().kind;
  const std::string found = kind == Token::Kind::kEnd         ? "the template's end"
                            : kind == Token::Kind::kBlockEnd  ? "'%}'"
                            : kind == Token::Kind::kOutputEnd ? "'}}'"
                            : kind == Token::Kind::kString    ? "a string"
                                                              : absl::StrCat("'", Shorten(Now().text), "'");
  return ErrorHere(absl::StrCat("expected ", expected, ", but found ", found));
}

absl::Status Parser::ExpectOperator(absl::string_view text) {
  return SkipOperator(text) ? absl::OkStatus() : Unexpected(absl::StrCat("'", text, "'"));
}

absl::StatusOr<std::string> Parser::ExpectName() {
  if (Now().kind != Token::Kind::kName) return Unexpected("a name");
  std::string name = Now().text;
  Advance();
  return name;
}

absl::Status Parser::EndTag(Token::Kind kind) {
  if (Skip(Now().kind == kind)) return absl::OkStatus();
  return Unexpected(kind == Token::Kind::kBlockEnd ? "'%}'" : "'}}'");
}

absl::StatusOr<Block> Parser::ParseBlock(std::initializer_list<const char*> ends) {
  if (++depth_ > kMaxNesting) return ErrorHere("blocks are nested too deep");
  Block block;
  for (;;) {
    const int line = Now().line;
    Statement statement;
    if (Now().kind == Token::Kind::kEnd) {
      if (ends.size() > 0) return ErrorHere(absl::StrCat("the template ends before {% ", *(ends.end() - 1), " %}"));
      break;
    }
    if (Now().kind == Token::Kind::kText) {
      statement.text = Now().text;
      Advance();
    } else if (Now().kind == Token::Kind::kOutputBegin) {
      Advance();
      statement.kind = StatementKind::kOutput;
      DISTILL_ASSIGN_OR_RETURN(statement.value, ParseTuple());
      DISTILL_RETURN_IF_ERROR(EndTag(Token::Kind::kOutputEnd));
    } else {
      Advance();
      if (std::any_of(ends.begin(), ends.end(), [this](const char* end) { return IsName(end); })) break;
      DISTILL_ASSIGN_OR_RETURN(statement, ParseStatement());
    }
    statement.line = line;
    block.push_back(std::move(statement));
  }
  --depth_;
  return block;
}

absl::StatusOr<Block> Parser::ParseBody(const char* end) {
  DISTILL_RETURN_IF_ERROR(EndTag(Token::Kind::kBlockEnd));
  DISTILL_ASSIGN_OR_RETURN(Block block, ParseBlock({end}));
  Advance();
  DISTILL_RETURN_IF_ERROR(EndTag(Token::Kind::kBlockEnd));
  return block;
}

absl::StatusOr<Block> Parser::ParseElse(const char* end) {
  if (SkipName("else")) return ParseBody(end);
  Advance();
  DISTILL_RETURN_IF_ERROR(EndTag(Token::Kind::kBlockEnd));
  return Block();
}

absl::StatusOr<Statement> Parser::ParseStatement() {
  Statement statement;
  const int line = Now().line;
  DISTILL_ASSIGN_OR_RETURN(const std::string name, ExpectName());
  if (name == "if") {
    DISTILL_RETURN_IF_ERROR(ParseIf(&statement));
  } else if (name == "for") {
    DISTILL_RETURN_IF_ERROR(ParseFor(&statement));
  } else if (name == "set") {
    DISTILL_RETURN_IF_ERROR(ParseSet(&statement));
  } else if (name == "macro") {
    DISTILL_RETURN_IF_ERROR(ParseMacro(&statement));
  } else if (name == "call") {
    DISTILL_RETURN_IF_ERROR(ParseCallBlock(&statement));
  } else if (name == "with") {
    DISTILL_RETURN_IF_ERROR(ParseWith(&statement));
  } else if (name == "filter") {
    statement.kind = StatementKind::kFilterBlock;
    DISTILL_ASSIGN_OR_RETURN(statement.value, Make(Expression::Kind::kName, line, kBlockText, {}));
    DISTILL_ASSIGN_OR_RETURN(statement.value, ParseFilter(std::move(statement.value)));
    DISTILL_ASSIGN_OR_RETURN(statement.body, ParseBody("endfilter"));
  } else if (name == "generation") {
    has_generation_ = true;
    statement.kind = StatementKind::kGeneration;
    DISTILL_ASSIGN_OR_RETURN(statement.body, ParseBody("endgeneration"));
  } else if (name == "break" || name == "continue") {
    if (loops_ == 0) return ErrorAt(line, absl::StrCat("{% ", name, " %} outside of a loop"));
    statement.kind = name == "break" ? StatementKind::kBreak : StatementKind::kContinue;
    DISTILL_RETURN_IF_ERROR(EndTag(Token::Kind::kBlockEnd));
  } else {
    return ErrorAt(line, absl::StrCat("{% ", Shorten(name),
                                      " %} is not supported here; supported: if, for, set, macro, call, filter, with, "
                                      "generation, break, continue, raw, and the tags that end them"));
  }
  return statement;
}

absl::Status Parser::ParseIf(Statement* statement) {
  statement->kind = StatementKind::kIf;
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseTuple());
    DISTILL_RETURN_IF_ERROR(EndTag(Token::Kind::kBlockEnd));
    DISTILL_ASSIGN_OR_RETURN(Block body, ParseBlock({"elif", "else", "endif"}));
    statement->branches.emplace_back(std::move(condition), std::move(body));
    if (!SkipName("elif")) break;
  }
  DISTILL_ASSIGN_OR_RETURN(statement->otherwise, ParseElse("endif"));
  return absl::OkStatus();
}

absl::Status Parser::ParseFor(Statement* statement) {
  statement->kind = StatementKind::kFor;
  DISTILL_ASSIGN_OR_RETURN(statement->target, ParseTarget(/*with_attributes=*/false));
  if (!SkipName("in")) return Unexpected("'in'");
  DISTILL_ASSIGN_OR_RETURN(statement->value, ParseTuple(/*with_condition=*/false));
  if (SkipName("if")) {
    DISTILL_ASSIGN_OR_RETURN(statement->condition, ParseExpression());
  }
  statement->is_recursive = SkipName("recursive");
  DISTILL_RETURN_IF_ERROR(EndTag(Token::Kind::kBlockEnd));
  ++loops_;
  DISTILL_ASSIGN_OR_RETURN(statement->body, ParseBlock({"else", "endfor"}));
  --loops_;
  DISTILL_ASSIGN_OR_RETURN(statement->otherwise, ParseElse("endfor"));
  return absl::OkStatus();
}

absl::Status Parser::ParseSet(Statement* statement) {
  const int line = Now().line;
  DISTILL_ASSIGN_OR_RETURN(statement->target, ParseTarget(/*with_attributes=*/true));
  if (SkipOperator("=")) {
    statement->kind = StatementKind::kSet;
    DISTILL_ASSIGN_OR_RETURN(statement->value, ParseTuple());
    return EndTag(Token::Kind::kBlockEnd);
  }
  statement->kind = StatementKind::kSetBlock;
  while (SkipOperator("|")) {
    if (statement->value == nullptr) {
      DISTILL_ASSIGN_OR_RETURN(statement->value, Make(Expression::Kind::kName, line, kBlockText, {}));
    }
    DISTILL_ASSIGN_OR_RETURN(statement->value, ParseFilter(std::move(statement->value)));
  }
  DISTILL_ASSIGN_OR_RETURN(statement->body, ParseBody("endset"));
  return absl::OkStatus();
}

absl::Status Parser::ParseMacro(Statement* statement) {
  statement->kind = StatementKind::kMacro;
  DISTILL_ASSIGN_OR_RETURN(statement->text, ExpectName());
  DISTILL_RETURN_IF_ERROR(ParseParameters(statement));
  return ParseMacroBody(statement, "endmacro");
}

absl::Status Parser::ParseParameters(Statement* statement) {
  DISTILL_RETURN_IF_ERROR(ExpectOperator("("));
  return ParseItems(")", [&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(std::string name, ExpectName());
    ExpressionPtr value;
    if (SkipOperator("=")) {
      DISTILL_ASSIGN_OR_RETURN(value, ParseExpression());
    } else if (!statement->parameters.empty() && statement->parameters.back().second != nullptr) {
      return ErrorHere("a parameter without a default follows one with a default");
    }
    statement->parameters.emplace_back(std::move(name), std::move(value));
    return absl::OkStatus();
  });
}

absl::Status Parser::ParseMacroBody(Statement* statement, const char* end) {
  const int loops = std::exchange(loops_, 0);
  const bool varargs = std::exchange(uses_varargs_, false), kwargs = std::exchange(uses_kwargs_, false),
             caller = std::exchange(uses_caller_, false);
  DISTILL_ASSIGN_OR_RETURN(statement->body, ParseBody(end));
  statement->uses_varargs = uses_varargs_;
  statement->uses_kwargs = uses_kwargs_;
  statement->uses_caller = uses_caller_;
  uses_varargs_ = uses_varargs_ || varargs;
  uses_kwargs_ = uses_kwargs_ || kwargs;
  uses_caller_ = uses_caller_ || caller;
  loops_ = loops;
  return absl::OkStatus();
}

absl::Status Parser::ParseCallBlock(Statement* statement) {
  statement->kind = StatementKind::kCallBlock;
  if (IsOperator("(")) DISTILL_RETURN_IF_ERROR(ParseParameters(statement));
  DISTILL_ASSIGN_OR_RETURN(statement->value, ParseExpression());
  if (statement->value->kind != Expression::Kind::kCall) return ErrorHere("{% call %} needs the call of a macro");
  return ParseMacroBody(statement, "endcall");
}

absl::Status Parser::ParseWith(Statement* statement) {
  statement->kind = StatementKind::kWith;
  while (Now().kind != Token::Kind::kBlockEnd) {
    if (!statement->parameters.empty()) DISTILL_RETURN_IF_ERROR(ExpectOperator(","));
    DISTILL_ASSIGN_OR_RETURN(std::string name, ExpectName());
    DISTILL_RETURN_IF_ERROR(ExpectOperator("="));
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    statement->parameters.emplace_back(std::move(name), std::move(value));
  }
  DISTILL_ASSIGN_OR_RETURN(statement->body, ParseBody("endwith"));
  return absl::OkStatus();
}

Parser::Result Parser::ParseTarget(bool with_attributes) {
  const int line = Now().line;
  std::vector<ExpressionPtr> targets;
  bool several = false;
  do {
    if (!targets.empty() && Now().kind != Token::Kind::kName && !IsOperator("(")) break;
    if (!targets.empty() && IsName("in")) break;
    DISTILL_ASSIGN_OR_RETURN(targets.emplace_back(), ParseOneTarget(with_attributes));
    several = several || IsOperator(",");
  } while (SkipOperator(","));
  return several ? Make(Expression::Kind::kTuple, line, "", std::move(targets)) : std::move(targets.front());
}

Parser::Result Parser::ParseOneTarget(bool with_attributes) {
  const int line = Now().line;
  if (SkipOperator("(")) {
    return ParseNested([&]() -> Result {
      DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, ParseTarget(with_attributes));
      DISTILL_RETURN_IF_ERROR(ExpectOperator(")"));
      return node;
    });
  }
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (IsName(constant)) return ErrorHere(absl::StrCat("'", constant, "' cannot be assigned to"));
  }
  DISTILL_ASSIGN_OR_RETURN(std::string name, ExpectName());
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, Make(Expression::Kind::kName, line, std::move(name), {}));
  if (!with_attributes || !SkipOperator(".")) return node;
  DISTILL_ASSIGN_OR_RETURN(std::string attribute, ExpectName());
  return Make(Expression::Kind::kAttribute, line, std::move(attribute), Nodes(std::move(node)));
}

}  // namespace distill::jinja
