#include "libdistill/jinja/parser.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill::jinja {

using Kind = Statement::Kind;

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
                                                              : absl::StrCat("'", Now().text, "'");
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
      statement.kind = Kind::kOutput;
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
  } else if (name == "generation") {
    has_generation_ = true;
    statement.kind = Kind::kGeneration;
    DISTILL_ASSIGN_OR_RETURN(statement.body, ParseBody("endgeneration"));
  } else if (name == "break" || name == "continue") {
    if (loops_ == 0) return ErrorAt(line, absl::StrCat("{% ", name, " %} outside of a loop"));
    statement.kind = name == "break" ? Kind::kBreak : Kind::kContinue;
    DISTILL_RETURN_IF_ERROR(EndTag(Token::Kind::kBlockEnd));
  } else {
    return ErrorAt(line, absl::StrCat("{% ", name,
                                      " %} is not supported here; supported: if, for, set, macro, generation, "
                                      "break, continue, raw, and the tags that end them"));
  }
  return statement;
}

absl::Status Parser::ParseIf(Statement* statement) {
  statement->kind = Kind::kIf;
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
  statement->kind = Kind::kFor;
  DISTILL_ASSIGN_OR_RETURN(statement->target, ParseTarget());
  if (statement->target->kind == Expression::Kind::kAttribute) return ErrorHere("a loop cannot assign to an attribute");
  if (!SkipName("in")) return Unexpected("'in'");
  DISTILL_ASSIGN_OR_RETURN(statement->value, ParseTuple(/*with_condition=*/false));
  if (SkipName("if")) {
    DISTILL_ASSIGN_OR_RETURN(statement->condition, ParseExpression());
  }
  if (IsName("recursive")) return ErrorHere("recursive loops are not supported");
  DISTILL_RETURN_IF_ERROR(EndTag(Token::Kind::kBlockEnd));
  ++loops_;
  DISTILL_ASSIGN_OR_RETURN(statement->body, ParseBlock({"else", "endfor"}));
  --loops_;
  DISTILL_ASSIGN_OR_RETURN(statement->otherwise, ParseElse("endfor"));
  return absl::OkStatus();
}

absl::Status Parser::ParseSet(Statement* statement) {
  DISTILL_ASSIGN_OR_RETURN(statement->target, ParseTarget());
  if (SkipOperator("=")) {
    statement->kind = Kind::kSet;
    DISTILL_ASSIGN_OR_RETURN(statement->value, ParseTuple());
    return EndTag(Token::Kind::kBlockEnd);
  }
  if (IsOperator("|")) return ErrorHere("filters on a {% set %} block are not supported");
  statement->kind = Kind::kSetBlock;
  DISTILL_ASSIGN_OR_RETURN(statement->body, ParseBody("endset"));
  return absl::OkStatus();
}

absl::Status Parser::ParseMacro(Statement* statement) {
  statement->kind = Kind::kMacro;
  DISTILL_ASSIGN_OR_RETURN(statement->text, ExpectName());
  DISTILL_RETURN_IF_ERROR(ExpectOperator("("));
  DISTILL_RETURN_IF_ERROR(ParseItems(")", [&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(std::string name, ExpectName());
    ExpressionPtr value;
    if (SkipOperator("=")) {
      DISTILL_ASSIGN_OR_RETURN(value, ParseExpression());
    } else if (!statement->parameters.empty() && statement->parameters.back().second != nullptr) {
      return ErrorHere("a parameter without a default follows one with a default");
    }
    statement->parameters.emplace_back(std::move(name), std::move(value));
    return absl::OkStatus();
  }));
  const int loops = std::exchange(loops_, 0);
  DISTILL_ASSIGN_OR_RETURN(statement->body, ParseBody("endmacro"));
  loops_ = loops;
  return absl::OkStatus();
}

// A name, names with commas between them (in brackets or not), or one attribute of a name.
Parser::Result Parser::ParseTarget() {
  const int line = Now().line;
  const bool bracketed = SkipOperator("(");
  std::vector<ExpressionPtr> names;
  bool several = bracketed;
  do {
    if (!names.empty() && Now().kind != Token::Kind::kName) break;
    DISTILL_ASSIGN_OR_RETURN(std::string name, ExpectName());
    DISTILL_ASSIGN_OR_RETURN(names.emplace_back(), Make(Expression::Kind::kName, line, std::move(name), {}));
    several = several || IsOperator(",");
  } while (SkipOperator(","));
  if (bracketed) DISTILL_RETURN_IF_ERROR(ExpectOperator(")"));
  if (several) return Make(Expression::Kind::kTuple, line, "", std::move(names));
  if (!SkipOperator(".")) return std::move(names.front());
  DISTILL_ASSIGN_OR_RETURN(std::string attribute, ExpectName());
  return Make(Expression::Kind::kAttribute, line, std::move(attribute), std::move(names));
}

}  // namespace distill::jinja
