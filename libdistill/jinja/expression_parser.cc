#include "libdistill/jinja/parser.h"

#include "absl/algorithm/container.h"
#include "libdistill/core/status_macros.h"

namespace distill::jinja {
namespace {

using Kind = Expression::Kind;

// Operators that bind to the left, the loosest first; "or", "and", "not" and comparisons bind less than they do.
const std::vector<absl::string_view> kLevels[] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
constexpr int kHighest = std::size(kLevels) - 1;

}  // namespace

Parser::Result Parser::ParseNested(absl::FunctionRef<Result()> parse) {
  if (++nesting_ > kMaxNesting) return ErrorHere("the expression is nested too deep");
  Result node = parse();
  --nesting_;
  return node;
}

Parser::Result Parser::ParseExpression(bool with_condition) {
  return ParseNested([&]() -> Result {
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, ParseBinary(-2));
    while (with_condition && IsName("if")) {
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
  });
}

// Level -2: or; -1: and; 0 and up: kLevels. Above "and" stand "not" and comparisons.
Parser::Result Parser::ParseBinary(int level) {
  const auto parse_next = [this, level] {
    return level == -1 ? ParseNot() : level == kHighest ? ParseUnary(true) : ParseBinary(level + 1);
  };
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, parse_next());
  for (;;) {
    const std::string name = Now().text;
    const int line = Now().line;
    if (level < 0) {
      if (!SkipName(level == -2 ? "or" : "and")) return node;
    } else {
      if (absl::c_none_of(kLevels[level], [this](absl::string_view o) { return IsOperator(o); })) return node;
      Advance();
    }
    DISTILL_ASSIGN_OR_RETURN(ExpressionPtr right, parse_next());
    const Kind kind = level == -2 ? Kind::kOr : level == -1 ? Kind::kAnd : Kind::kBinary;
    DISTILL_ASSIGN_OR_RETURN(node, Make(kind, line, name, Nodes(std::move(node), std::move(right))));
  }
}

Parser::Result Parser::ParseNot() {
  const int line = Now().line;
  if (!SkipName("not")) return ParseCompare();
  DISTILL_ASSIGN_OR_RETURN(ExpressionPtr node, ParseNested([this] { return ParseNot(); }));
  return Make(Kind::kNot, line, "", Nodes(std::move(node)));
}

Parser::Result Parser::ParseCompare() {
  const int line = Now().line;
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> operators;
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(operands.emplace_back(), ParseBinary(0));
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

Parser::Result Parser::ParseUnary(bool with_filter) {
  return ParseNested([&]() -> Result {
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
  });
}

}  // namespace distill::jinja
