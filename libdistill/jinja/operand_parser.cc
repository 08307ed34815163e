#include "libdistill/jinja/parser.h"

#include <charconv>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

std::string NamesOf(const auto& table) {
  return absl::StrJoin(table, ", ", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); });
}

}  // namespace

using Kind = Expression::Kind;

absl::Status Parser::Grow(Expression* node) const {
  int height = 0;
  for (const ExpressionPtr& child : node->children) height = std::max(height, child == nullptr ? 0 : child->height);
  for (const auto& [name, child] : node->keywords) height = std::max(height, child->height);
  for (const ExpressionPtr* child : {&node->spread, &node->named_spread}) {
    height = std::max(height, *child == nullptr ? 0 : (*child)->height);
  }
  node->height = height + 1;
  return node->height > kMaxHeight ? ErrorAt(node->line, "the expression is too long") : absl::OkStatus();
}

Parser::Result Parser::Make(Kind kind, int line, std::string name, std::vector<ExpressionPtr> children) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  node->children = std::move(children);
  DISTILL_RETURN_IF_ERROR(Grow(node.get()));
  return node;
}

Parser::Result Parser::ParsePostfix(ExpressionPtr node) {
  for (;;) {
    const int line = Now().line;
    if (SkipOperator(".")) {
      if (Now().kind == Token::Kind::kInteger) {
        DISTILL_ASSIGN_OR_RETURN(ExpressionPtr index, ParseConstant());
        DISTILL_ASSIGN_OR_RETURN(node, Make(Kind::kItem, line, "", Nodes(std::move(node), std::move(index))));
      } else {
        DISTILL_ASSIGN_OR_RETURN(std::string name, ExpectName());
        DISTILL_ASSIGN_OR_RETURN(node, Make(Kind::kAttribute, line, std::move(name), Nodes(std::move(node))));
      }
    } else if (SkipOperator("[")) {
      DISTILL_ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
    } else if (IsOperator("(")) {
      DISTILL_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

Parser::Result Parser::ParseSubscript(ExpressionPtr node) {
  const int line = Now().line;
  std::vector<ExpressionPtr> parts = Nodes(std::move(node), ExpressionPtr(), ExpressionPtr(), ExpressionPtr());
  size_t part = 1;
  while (!IsOperator("]")) {
    if (IsOperator(":")) {
      if (++part > 3) return ErrorHere("a slice has at most three parts");
      Advance();
      continue;
    }
    if (parts[part] != nullptr) return Unexpected("']'");
    DISTILL_ASSIGN_OR_RETURN(parts[part], ParseExpression());
  }
  Advance();
  if (part > 1) return Make(Kind::kSlice, line, "", std::move(parts));
  if (parts[1] == nullptr) return ErrorAt(line, "a subscript is empty");
  return Make(Kind::kItem, line, "", Nodes(std::move(parts[0]), std::move(parts[1])));
}

Parser::Result Parser::ParseFilterOrTest(ExpressionPtr node) {
  for (;;) {
    if (SkipOperator("|")) {
      DISTILL_ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
    } else if (SkipName("is")) {
      DISTILL_ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else if (IsOperator("(")) {
      DISTILL_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

Parser::Result Parser::ParseFilter(ExpressionPtr node) {
  const int line = Now().line;
  DISTILL_ASSIGN_OR_RETURN(const std::string name, ExpectName());
  if (Filters().count(name) == 0) {
    return ErrorAt(line,
                   absl::StrCat("the filter '", Shorten(name), "' is not supported; supported: ", NamesOf(Filters())));
  }
  DISTILL_ASSIGN_OR_RETURN(node, Make(Kind::kFilter, line, name, Nodes(std::move(node))));
  if (IsOperator("(")) DISTILL_RETURN_IF_ERROR(ParseArguments(node.get()));
  return node;
}

Parser::Result Parser::ParseTest(ExpressionPtr node) {
  const int line = Now().line;
  const bool negated = SkipName("not");
  DISTILL_ASSIGN_OR_RETURN(const std::string name, ExpectName());
  if (Tests().count(name) == 0)
    return ErrorAt(line,
                   absl::StrCat("the test '", Shorten(name), "' is not supported; supported: ", NamesOf(Tests())));
  DISTILL_ASSIGN_OR_RETURN(node, Make(Kind::kTest, line, name, Nodes(std::move(node))));
  if (IsOperator("(")) {
    DISTILL_RETURN_IF_ERROR(ParseArguments(node.get()));
  } else if (IsName("is")) {
    return ErrorHere("tests cannot be chained with 'is'");
  } else if (IsLiteral() || IsOperator("[") || IsOperator("{") ||
             (Now().kind == Token::Kind::kName && !IsName("else") && !IsName("or") && !IsName("and"))) {
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    DISTILL_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    node->children.push_back(std::move(argument));
    DISTILL_RETURN_IF_ERROR(Grow(node.get()));
  }
  return negated ? Make(Kind::kNot, line, "", Nodes(std::move(node))) : std::move(node);
}

absl::Status Parser::ParseItems(absl::string_view close, absl::FunctionRef<absl::Status()> parse) {
  while (!SkipOperator(close)) {
    DISTILL_RETURN_IF_ERROR(parse());
    if (!IsOperator(close)) DISTILL_RETURN_IF_ERROR(ExpectOperator(","));
  }
  return absl::OkStatus();
}

Parser::Result Parser::ParseCall(ExpressionPtr callee) {
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, Make(Kind::kCall, Now().line, "", Nodes(std::move(callee))));
  DISTILL_RETURN_IF_ERROR(ParseArguments(node.get()));
  return node;
}

absl::Status Parser::ParseArguments(Expression* call) {
  DISTILL_RETURN_IF_ERROR(ExpectOperator("("));
  DISTILL_RETURN_IF_ERROR(ParseItems(")", [&]() -> absl::Status {
    if (call->named_spread != nullptr) return ErrorHere("'**' stands behind all other arguments");
    if (SkipOperator("**")) {
      DISTILL_ASSIGN_OR_RETURN(call->named_spread, ParseExpression());
      return absl::OkStatus();
    }
    if (IsOperator("*") && call->spread != nullptr) return ErrorHere("'*' stands before one argument at most");
    if (SkipOperator("*")) {
      DISTILL_ASSIGN_OR_RETURN(call->spread, ParseExpression());
      return absl::OkStatus();
    }
    std::string name;
    if (Now().kind == Token::Kind::kName && Ahead().kind == Token::Kind::kOperator && Ahead().text == "=") {
      name = Now().text;
      if (absl::c_any_of(call->keywords, [&](const auto& keyword) { return keyword.first == name; })) {
        return ErrorHere(absl::StrCat("the argument '", Shorten(name), "' is given twice"));
      }
      Advance();
      Advance();
    } else if (!call->keywords.empty() || call->spread != nullptr) {
      return ErrorHere("an argument without a name follows one with a name, or '*'");
    }
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    if (name.empty()) {
      call->children.push_back(std::move(value));
    } else {
      call->keywords.emplace_back(name, std::move(value));
    }
    return absl::OkStatus();
  }));
  return Grow(call);
}

Parser::Result Parser::ParsePrimary() {
  const int line = Now().line;
  if (IsLiteral()) return ParseConstant();
  uses_varargs_ = uses_varargs_ || IsName("varargs");
  uses_kwargs_ = uses_kwargs_ || IsName("kwargs");
  uses_caller_ = uses_caller_ || IsName("caller");
  if (Now().kind == Token::Kind::kName) {
    static const std::map<absl::string_view, Value> kConstants = {
        {"true", true},   {"True", true},   {"none", Value::MakeNone()},
        {"false", false}, {"False", false}, {"None", Value::MakeNone()}};
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, Make(Kind::kName, line, Now().text, {}));
    if (const auto found = kConstants.find(Now().text); found != kConstants.end()) {
      node->kind = Kind::kConstant;
      node->constant = found->second;
    }
    Advance();
    return node;
  }
  if (SkipOperator("(")) {
    if (SkipOperator(")")) return Make(Kind::kTuple, line, "", {});
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, ParseTuple());
    DISTILL_RETURN_IF_ERROR(ExpectOperator(")"));
    return node;
  }
  const bool is_dict = IsOperator("{");
  if (is_dict || IsOperator("[")) {
    Advance();
    std::vector<ExpressionPtr> items;
    DISTILL_RETURN_IF_ERROR(ParseItems(is_dict ? "}" : "]", [&]() -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(items.emplace_back(), ParseExpression());
      if (!is_dict) return absl::OkStatus();
      DISTILL_RETURN_IF_ERROR(ExpectOperator(":"));
      DISTILL_ASSIGN_OR_RETURN(items.emplace_back(), ParseExpression());
      return absl::OkStatus();
    }));
    return Make(is_dict ? Kind::kDict : Kind::kList, line, "", std::move(items));
  }
  return Unexpected("an expression");
}

// A number, or one or more strings side by side.
Parser::Result Parser::ParseConstant() {
  const Token token = Now();
  Advance();
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, Make(Kind::kConstant, token.line, "", {}));
  if (token.kind == Token::Kind::kString) {
    std::string text = token.text;
    for (; Now().kind == Token::Kind::kString; Advance()) text += Now().text;
    node->constant = Value(std::move(text));
  } else if (token.kind == Token::Kind::kInteger) {
    int64_t number = 0;
    const absl::string_view prefix = absl::string_view(token.text).substr(0, 2);
    const int base = prefix == "0x" || prefix == "0X"   ? 16
                     : prefix == "0o" || prefix == "0O" ? 8
                     : prefix == "0b" || prefix == "0B" ? 2
                                                        : 10;
    const absl::string_view digits = absl::string_view(token.text).substr(base == 10 ? 0 : 2);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number, base).ec != std::errc())
      return ErrorAt(token.line, absl::StrCat(Shorten(token.text), " is too large"));
    node->constant = Value(number);
  } else {
    double number = 0;
    if (!absl::SimpleAtod(token.text, &number))
      return ErrorAt(token.line, absl::StrCat(Shorten(token.text), " is no number"));
    node->constant = Value(number);
  }
  return node;
}

Parser::Result Parser::ParseTuple(bool with_condition) {
  const int line = Now().line;
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr first, ParseExpression(with_condition));
  if (!IsOperator(",")) return first;
  const auto at_end = [this] {
    return Now().kind == Token::Kind::kBlockEnd || Now().kind == Token::Kind::kOutputEnd ||
           Now().kind == Token::Kind::kEnd || IsOperator(")") || IsName("in");
  };
  std::vector<ExpressionPtr> items = Nodes(std::move(first));
  while (SkipOperator(",") && !at_end()) {
    DISTILL_ASSIGN_OR_RETURN(items.emplace_back(), ParseExpression(with_condition));
  }
  return Make(Kind::kTuple, line, "", std::move(items));
}

}  // namespace distill::jinja
