#include "libdistill/text/jinja_expression_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/jinja_builtins.h"

namespace distill::jinja {
namespace {

using Kind = Expression::Kind;

// Operators that bind to the left, the loosest first; "not", comparisons and powers stand between and above them.
struct Level {
  std::vector<absl::string_view> operators;
};

const Level& LevelOf(int level) {
  static const Level kLevels[] = {{{"+", "-"}}, {{"~"}}, {{"*", "/", "//", "%"}}};
  return kLevels[level];
}

template <typename... T>
std::vector<ExpressionPtr> Nodes(T... node) {
  std::vector<ExpressionPtr> nodes;
  (nodes.push_back(std::move(node)), ...);
  return nodes;
}

// Counts one level of nesting while it lives.
class Nested {
 public:
  explicit Nested(int* depth) : depth_(depth) { ++*depth_; }
  ~Nested() { --*depth_; }

 private:
  int* depth_;
};

}  // namespace

bool ExpressionParser::SkipOperator(absl::string_view text) {
  if (!IsOperator(text)) return false;
  Advance();
  return true;
}

bool ExpressionParser::SkipName(absl::string_view text) {
  if (!IsName(text)) return false;
  Advance();
  return true;
}

absl::Status ExpressionParser::ErrorHere(absl::string_view message) const { return ErrorAt(Now().line, message); }

std::string ExpressionParser::Describe() const {
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

absl::Status ExpressionParser::ExpectOperator(absl::string_view text) {
  if (SkipOperator(text)) return absl::OkStatus();
  return ErrorHere(absl::StrCat("expected '", text, "', but found ", Describe()));
}

absl::StatusOr<std::string> ExpressionParser::ExpectName() {
  if (Now().kind != Token::Kind::kName) return ErrorHere(absl::StrCat("expected a name, but found ", Describe()));
  std::string name = Now().text;
  Advance();
  return name;
}

absl::Status ExpressionParser::Grow(Expression* node) const {
  int height = 0;
  for (const ExpressionPtr& child : node->children) height = std::max(height, child == nullptr ? 0 : child->height);
  for (const auto& [name, child] : node->keywords) height = std::max(height, child->height);
  node->height = height + 1;
  return node->height > kMaxHeight ? ErrorAt(node->line, "the expression is too long") : absl::OkStatus();
}

ExpressionParser::Result ExpressionParser::Make(Kind kind, int line, std::string name,
                                                std::vector<ExpressionPtr> children) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  node->children = std::move(children);
  DISTILL_RETURN_IF_ERROR(Grow(node.get()));
  return node;
}

ExpressionParser::Result ExpressionParser::ParseExpression(bool with_condition) {
  const Nested nested(&nesting_);
  if (nesting_ > kMaxNesting) return ErrorHere("the expression is nested too deep");
  return with_condition ? ParseConditional() : ParseBinary(-2);
}

ExpressionParser::Result ExpressionParser::ParseConditional() {
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, ParseBinary(-2));
  while (IsName("if")) {
    const int line = Now().line;
    Advance();
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseBinary(-2));
    ExpressionPtr otherwise;
    if (SkipName("else")) {
      DISTILL_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    DISTILL_ASSIGN_OR_RETURN(
        node, Make(Kind::kConditional, line, "", Nodes(std::move(node), std::move(condition), std::move(otherwise))));
  }
  return node;
}

// Level -2: or; -1: and; 0 and up: LevelOf. Above "and" stand "not" and comparisons, above the last level powers.
ExpressionParser::Result ExpressionParser::ParseBinary(int level) {
  const auto parse_next = [this, level] {
    return level == -1 ? ParseNot() : level == 2 ? ParsePower() : ParseBinary(level + 1);
  };
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, parse_next());
  for (;;) {
    const std::string name = Now().text;
    const int line = Now().line;
    if (level < 0) {
      if (!SkipName(level == -2 ? "or" : "and")) return node;
    } else {
      const auto& operators = LevelOf(level).operators;
      if (std::none_of(operators.begin(), operators.end(), [this](absl::string_view o) { return IsOperator(o); })) {
        return node;
      }
      Advance();
    }
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr right, parse_next());
    const Kind kind = level == -2 ? Kind::kOr : level == -1 ? Kind::kAnd : Kind::kBinary;
    DISTILL_ASSIGN_OR_RETURN(node, Make(kind, line, name, Nodes(std::move(node), std::move(right))));
  }
}

ExpressionParser::Result ExpressionParser::ParseNot() {
  const int line = Now().line;
  if (!SkipName("not")) return ParseCompare();
  const Nested nested(&nesting_);
  if (nesting_ > kMaxNesting) return ErrorHere("the expression is nested too deep");
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, ParseNot());
  return Make(Kind::kNot, line, "", Nodes(std::move(node)));
}

ExpressionParser::Result ExpressionParser::ParseCompare() {
  const int line = Now().line;
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> operators;
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseBinary(0));
    operands.push_back(std::move(operand));
    std::string name;
    if (Now().kind == Token::Kind::kOperator) {
      for (const char* o : {"==", "!=", "<", "<=", ">", ">="}) {
        if (IsOperator(o)) name = o;
      }
    } else if (IsName("in")) {
      name = "in";
    } else if (IsName("not") && Ahead().kind == Token::Kind::kName && Ahead().text == "in") {
      name = "not in";
      Advance();
    }
    if (name.empty()) break;
    Advance();
    operators.push_back(std::move(name));
  }
  if (operators.empty()) return std::move(operands.front());
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, Make(Kind::kCompare, line, "", std::move(operands)));
  node->operators = std::move(operators);
  return node;
}

ExpressionParser::Result ExpressionParser::ParsePower() {
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, ParseUnary(true));
  while (IsOperator("**")) {
    const int line = Now().line;
    Advance();
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr right, ParseUnary(true));
    DISTILL_ASSIGN_OR_RETURN(node, Make(Kind::kBinary, line, "**", Nodes(std::move(node), std::move(right))));
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParseUnary(bool with_filter) {
  const Nested nested(&nesting_);
  if (nesting_ > kMaxNesting) return ErrorHere("the expression is nested too deep");
  const int line = Now().line;
  ExpressionPtr node;
  if (IsOperator("-") || IsOperator("+")) {
    const Kind kind = IsOperator("-") ? Kind::kNegative : Kind::kPositive;
    Advance();
    DISTILL_ASSIGN_OR_RETURN(node, ParseUnary(false));
    DISTILL_ASSIGN_OR_RETURN(node, Make(kind, line, "", Nodes(std::move(node))));
  } else {
    DISTILL_ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  DISTILL_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  return with_filter ? ParseFilterOrTest(std::move(node)) : std::move(node);
}

ExpressionParser::Result ExpressionParser::ParsePostfix(ExpressionPtr node) {
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
      DISTILL_ASSIGN_OR_RETURN(node, Make(Kind::kCall, line, "", Nodes(std::move(node))));
      DISTILL_RETURN_IF_ERROR(ParseArguments(node.get()));
    } else {
      return node;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseSubscript(ExpressionPtr node) {
  const int line = Now().line;
  std::vector<ExpressionPtr> parts = Nodes(std::move(node), ExpressionPtr(), ExpressionPtr(), ExpressionPtr());
  size_t part = 1;
  while (!IsOperator("]")) {
    if (IsOperator(":")) {
      if (++part > 3) return ErrorHere("a slice has at most three parts");
      Advance();
      continue;
    }
    if (parts[part] != nullptr) return ErrorHere(absl::StrCat("expected ']', but found ", Describe()));
    DISTILL_ASSIGN_OR_RETURN(parts[part], ParseExpression());
  }
  Advance();
  if (part > 1) return Make(Kind::kSlice, line, "", std::move(parts));
  if (parts[1] == nullptr) return ErrorAt(line, "a subscript is empty");
  return Make(Kind::kItem, line, "", Nodes(std::move(parts[0]), std::move(parts[1])));
}

ExpressionParser::Result ExpressionParser::ParseFilterOrTest(ExpressionPtr node) {
  for (;;) {
    const int line = Now().line;
    if (SkipOperator("|")) {
      DISTILL_ASSIGN_OR_RETURN(const std::string name, ExpectName());
      if (!HasFilter(name))
        return ErrorAt(line, absl::StrCat("the filter '", name, "' is not supported; supported: ", FilterNames()));
      DISTILL_ASSIGN_OR_RETURN(node, Make(Kind::kFilter, line, name, Nodes(std::move(node))));
      if (IsOperator("(")) DISTILL_RETURN_IF_ERROR(ParseArguments(node.get()));
    } else if (SkipName("is")) {
      DISTILL_ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else if (IsOperator("(")) {
      DISTILL_ASSIGN_OR_RETURN(node, Make(Kind::kCall, line, "", Nodes(std::move(node))));
      DISTILL_RETURN_IF_ERROR(ParseArguments(node.get()));
    } else {
      return node;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseTest(ExpressionPtr node) {
  const int line = Now().line;
  const bool negated = SkipName("not");
  DISTILL_ASSIGN_OR_RETURN(const std::string name, ExpectName());
  if (!HasTest(name))
    return ErrorAt(line, absl::StrCat("the test '", name, "' is not supported; supported: ", TestNames()));
  DISTILL_ASSIGN_OR_RETURN(node, Make(Kind::kTest, line, name, Nodes(std::move(node))));
  const Token::Kind kind = Now().kind;
  if (IsOperator("(")) {
    DISTILL_RETURN_IF_ERROR(ParseArguments(node.get()));
  } else if (IsName("is")) {
    return ErrorHere("tests cannot be chained with 'is'");
  } else if (kind == Token::Kind::kString || kind == Token::Kind::kInteger || kind == Token::Kind::kFloat ||
             IsOperator("[") || IsOperator("{") ||
             (kind == Token::Kind::kName && !IsName("else") && !IsName("or") && !IsName("and"))) {
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    DISTILL_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    node->children.push_back(std::move(argument));
    DISTILL_RETURN_IF_ERROR(Grow(node.get()));
  }
  return negated ? Make(Kind::kNot, line, "", Nodes(std::move(node))) : std::move(node);
}

absl::Status ExpressionParser::ParseArguments(Expression* call) {
  DISTILL_RETURN_IF_ERROR(ExpectOperator("("));
  while (!SkipOperator(")")) {
    if (IsOperator("*") || IsOperator("**")) return ErrorHere("'*' and '**' before arguments are not supported");
    if (Now().kind == Token::Kind::kName && Ahead().kind == Token::Kind::kOperator && Ahead().text == "=") {
      const std::string name = Now().text;
      Advance();
      Advance();
      DISTILL_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      call->keywords.emplace_back(name, std::move(value));
    } else {
      if (!call->keywords.empty()) return ErrorHere("an argument without a name follows one with a name");
      DISTILL_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      call->children.push_back(std::move(value));
    }
    if (!IsOperator(")")) DISTILL_RETURN_IF_ERROR(ExpectOperator(","));
  }
  return Grow(call);
}

ExpressionParser::Result ExpressionParser::ParsePrimary() {
  const int line = Now().line;
  switch (Now().kind) {
    case Token::Kind::kString:
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      return ParseConstant();
    case Token::Kind::kName: {
      const std::string name = Now().text;
      Advance();
      DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, Make(Kind::kConstant, line, name, {}));
      if (name == "true" || name == "True") {
        node->constant = Value(true);
      } else if (name == "false" || name == "False") {
        node->constant = Value(false);
      } else if (name == "none" || name == "None") {
        node->constant = Value::MakeNone();
      } else {
        node->kind = Kind::kName;
      }
      return node;
    }
    default:
      break;
  }
  if (SkipOperator("(")) return ParseParenthesized();
  if (SkipOperator("[")) {
    DISTILL_ASSIGN_OR_RETURN(std::vector<ExpressionPtr> items, ParseItems("]"));
    return Make(Kind::kList, line, "", std::move(items));
  }
  if (SkipOperator("{")) return ParseDict();
  return ErrorHere(absl::StrCat("expected an expression, but found ", Describe()));
}

// A number, or one or more strings side by side.
ExpressionParser::Result ExpressionParser::ParseConstant() {
  const Token token = Now();
  Advance();
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, Make(Kind::kConstant, token.line, "", {}));
  if (token.kind == Token::Kind::kString) {
    std::string text = token.text;
    for (; Now().kind == Token::Kind::kString; Advance()) text += Now().text;
    node->constant = Value(std::move(text));
  } else if (token.kind == Token::Kind::kInteger) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(token.text, &number)) return ErrorAt(token.line, absl::StrCat(token.text, " is too large"));
    node->constant = Value(number);
  } else {
    double number = 0;
    if (!absl::SimpleAtod(token.text, &number)) return ErrorAt(token.line, absl::StrCat(token.text, " is no number"));
    node->constant = Value(number);
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParseParenthesized() {
  const int line = Now().line;
  if (SkipOperator(")")) return Make(Kind::kTuple, line, "", {});
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, ParseTuple());
  DISTILL_RETURN_IF_ERROR(ExpectOperator(")"));
  return node;
}

ExpressionParser::Result ExpressionParser::ParseDict() {
  const int line = Now().line;
  std::vector<ExpressionPtr> items;
  while (!SkipOperator("}")) {
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    items.push_back(std::move(key));
    DISTILL_RETURN_IF_ERROR(ExpectOperator(":"));
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    items.push_back(std::move(value));
    if (!IsOperator("}")) DISTILL_RETURN_IF_ERROR(ExpectOperator(","));
  }
  return Make(Kind::kDict, line, "", std::move(items));
}

absl::StatusOr<std::vector<ExpressionPtr>> ExpressionParser::ParseItems(absl::string_view close) {
  std::vector<ExpressionPtr> items;
  while (!SkipOperator(close)) {
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    items.push_back(std::move(item));
    if (!IsOperator(close)) DISTILL_RETURN_IF_ERROR(ExpectOperator(","));
  }
  return items;
}

bool ExpressionParser::AtEndOfTuple() const {
  return Now().kind == Token::Kind::kBlockEnd || Now().kind == Token::Kind::kOutputEnd ||
         Now().kind == Token::Kind::kEnd || IsOperator(")") || IsName("in");
}

ExpressionParser::Result ExpressionParser::ParseTuple(bool with_condition) {
  const int line = Now().line;
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr first, ParseExpression(with_condition));
  if (!IsOperator(",")) return first;
  std::vector<ExpressionPtr> items = Nodes(std::move(first));
  while (SkipOperator(",") && !AtEndOfTuple()) {
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression(with_condition));
    items.push_back(std::move(item));
  }
  return Make(Kind::kTuple, line, "", std::move(items));
}

}  // namespace distill::jinja
