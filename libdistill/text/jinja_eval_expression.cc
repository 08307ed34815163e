#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/jinja_eval.h"

namespace distill::jinja {
namespace {

using Result = absl::StatusOr<Value>;

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

double FloorModulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

Result IntegerPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (base == 0 || base == 1 || base == -1)
    return Value(exponent == 0 || base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base == 0 ? 0 : -1);
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) return Error("a number is too large");
  }
  return Value(result);
}

Result IntegerOperator(const std::string& name, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (name == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (name == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (name == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (name == "**") {
    return b < 0 ? Result(Value(std::pow(static_cast<double>(a), static_cast<double>(b)))) : IntegerPower(a, b);
  } else if (b == 0) {
    return Error("division by zero");
  } else if (name == "/") {
    return Value(static_cast<double>(a) / static_cast<double>(b));
  } else if (b == -1) {
    if (name == "//") overflow = __builtin_sub_overflow(int64_t{0}, a, &result);
  } else {
    result = name == "//" ? FloorDivide(a, b) : a - FloorDivide(a, b) * b;
  }
  return overflow ? Result(Error("a number is too large")) : Value(result);
}

Result FloatOperator(const std::string& name, double a, double b) {
  if (name == "+") return Value(a + b);
  if (name == "-") return Value(a - b);
  if (name == "*") return Value(a * b);
  if (name == "**") return Value(std::pow(a, b));
  if (b == 0) return Error("division by zero");
  if (name == "/") return Value(a / b);
  return name == "//" ? Value((a - FloorModulo(a, b)) / b) : Value(FloorModulo(a, b));
}

Result Repeat(const Value& sequence, int64_t count) {
  count = std::max<int64_t>(count, 0);
  if (const std::string* text = sequence.text()) {
    if (!text->empty() && count > static_cast<int64_t>(kMaxTextBytes / text->size())) {
      return Error("a text grows beyond 64 MiB");
    }
    std::string out;
    for (int64_t i = 0; i < (text->empty() ? 0 : count); ++i) out += *text;
    return Value(std::move(out));
  }
  const std::vector<Value>& items = sequence.list()->items;
  if (!items.empty() && count > static_cast<int64_t>(kMaxItems / items.size())) {
    return Error("a list grows beyond a million items");
  }
  std::vector<Value> out;
  for (int64_t i = 0; i < (items.empty() ? 0 : count); ++i) out.insert(out.end(), items.begin(), items.end());
  return MakeList(std::move(out), sequence.list()->is_tuple);
}

}  // namespace

Result ApplyOperator(const std::string& name, const Value& left, const Value& right) {
  if (name == "~") return BoundedText(ToText(left) + ToText(right));
  for (const Value* value : {&left, &right}) {
    if (value->IsUndefined()) return Error(value->reason());
  }
  if (left.IsInteger() && right.IsInteger()) return IntegerOperator(name, left.integer(), right.integer());
  if (left.IsNumber() && right.IsNumber()) return FloatOperator(name, left.number(), right.number());
  if (name == "+" && left.IsString() && right.IsString()) return BoundedText(*left.text() + *right.text());
  if (name == "+" && left.list() != nullptr && right.list() != nullptr &&
      left.list()->is_tuple == right.list()->is_tuple) {
    std::vector<Value> items = left.list()->items;
    items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
    return MakeList(std::move(items), left.list()->is_tuple);
  }
  const auto repeats = [](const Value& value) { return value.IsString() || value.list() != nullptr; };
  if (name == "*" && repeats(left) && right.IsInteger()) return Repeat(left, right.integer());
  if (name == "*" && repeats(right) && left.IsInteger()) return Repeat(right, left.integer());
  return Error(absl::StrCat("'", name, "' is not supported between ", TypeName(left), " and ", TypeName(right)));
}

Result Evaluator::Evaluate(const Expression& node, Scope* scope) {
  DISTILL_RETURN_IF_ERROR(Enter());
  Result result = EvaluateNode(node, scope);
  --depth_;
  return result;
}

Result Evaluator::EvaluateNode(const Expression& node, Scope* scope) {
  using Kind = Expression::Kind;
  switch (node.kind) {
    case Kind::kConstant:
      return node.constant;
    case Kind::kName:
      return EvaluateName(node, scope);
    case Kind::kDict:
      return EvaluateDict(node, scope);
    case Kind::kSlice:
      return EvaluateSlice(node, scope);
    case Kind::kCompare:
      return EvaluateCompare(node, scope);
    case Kind::kCall:
      return EvaluateCall(node, scope);
    case Kind::kList:
    case Kind::kTuple: {
      DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, EvaluateAll(node, 0, scope));
      return MakeList(std::move(items), node.kind == Kind::kTuple);
    }
    default:
      break;
  }
  // The others begin with the value of their first child; a conditional's first is its condition.
  DISTILL_ASSIGN_OR_RETURN(const Value first, Evaluate(*node.children[node.kind == Kind::kConditional ? 1 : 0], scope));
  switch (node.kind) {
    case Kind::kConditional: {
      const Expression* chosen = node.children[IsTrue(first) ? 0 : 2].get();
      return chosen == nullptr ? Value::MakeUndefined("the inline if has no else, and its condition is false")
                               : Evaluate(*chosen, scope);
    }
    case Kind::kAnd:
      return IsTrue(first) ? Evaluate(*node.children[1], scope) : first;
    case Kind::kOr:
      return IsTrue(first) ? first : Evaluate(*node.children[1], scope);
    case Kind::kNot:
      return Value(!IsTrue(first));
    case Kind::kNegative:
      return ApplyOperator("-", Value(0), first);
    case Kind::kPositive:
      return ApplyOperator("+", Value(0), first);
    case Kind::kAttribute:
      return GetAttribute(first, node.name);
    case Kind::kFilter: {
      DISTILL_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node, scope));
      return ApplyFilter(node.name, first, arguments);
    }
    case Kind::kTest: {
      DISTILL_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node, scope));
      if (!arguments.named.empty()) return Error(absl::StrCat("the test '", node.name, "' takes no named arguments"));
      DISTILL_ASSIGN_OR_RETURN(const bool holds, ApplyTest(node.name, first, arguments.positional));
      return Value(holds);
    }
    default:
      break;
  }
  DISTILL_ASSIGN_OR_RETURN(const Value second, Evaluate(*node.children[1], scope));
  return node.kind == Kind::kItem ? GetItem(first, second) : ApplyOperator(node.name, first, second);
}

Result Evaluator::EvaluateName(const Expression& node, Scope* scope) {
  for (const Scope* inner = scope; inner != nullptr; inner = inner->parent) {
    if (const auto found = inner->names.find(node.name); found != inner->names.end()) return found->second;
  }
  if (!HasGlobal(node.name)) return Value::MakeUndefined(absl::StrCat("'", node.name, "' is undefined"));
  auto function = std::make_shared<Function>();
  function->name = node.name;
  return Value(std::shared_ptr<const Function>(std::move(function)));
}

Result Evaluator::EvaluateDict(const Expression& node, Scope* scope) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> values, EvaluateAll(node, 0, scope));
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < values.size(); i += 2)
    entries.emplace_back(std::move(values[i]), std::move(values[i + 1]));
  return MakeDict(std::move(entries));
}

Result Evaluator::EvaluateSlice(const Expression& node, Scope* scope) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i) {
    if (node.children[i] == nullptr) continue;
    DISTILL_ASSIGN_OR_RETURN(parts[i], Evaluate(*node.children[i], scope));
  }
  return Slice(parts[0], parts[1], parts[2], parts[3]);
}

Result Evaluator::EvaluateCompare(const Expression& node, Scope* scope) {
  DISTILL_ASSIGN_OR_RETURN(Value left, Evaluate(*node.children[0], scope));
  for (size_t i = 0; i < node.operators.size(); ++i) {
    const std::string& name = node.operators[i];
    DISTILL_ASSIGN_OR_RETURN(Value right, Evaluate(*node.children[i + 1], scope));
    bool holds = false;
    if (name == "==" || name == "!=") {
      holds = Equal(left, right) == (name == "==");
    } else if (name == "in" || name == "not in") {
      DISTILL_ASSIGN_OR_RETURN(const bool contains, Contains(right, left));
      holds = contains == (name == "in");
    } else {
      DISTILL_ASSIGN_OR_RETURN(const int order, Compare(left, right));
      holds = name == "<" ? order < 0 : name == "<=" ? order <= 0 : name == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result Evaluator::EvaluateCall(const Expression& node, Scope* scope) {
  DISTILL_ASSIGN_OR_RETURN(const Value callee, Evaluate(*node.children[0], scope));
  const Function* function = callee.function();
  if (function == nullptr) {
    return Error(callee.IsUndefined() ? callee.reason() : absl::StrCat(TypeName(callee), " cannot be called"));
  }
  DISTILL_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node, scope));
  if (function->kind == Function::Kind::kMacro) return CallMacro(*function, arguments);
  if (function->kind == Function::Kind::kMethod) return CallMethod(function->receiver, function->name, arguments);
  DISTILL_ASSIGN_OR_RETURN(Value value, CallGlobal(function->name, arguments));
  if (value.dict() != nullptr && value.dict()->kind == Dict::Kind::kNamespace) {
    namespaces_.push_back(value.shared_dict());
  }
  return value;
}

Result Evaluator::CallMacro(const Function& function, const Arguments& arguments) {
  const Statement& macro = *function.macro;
  if (arguments.positional.size() > macro.parameters.size()) {
    return Error(absl::StrCat("macro '", function.name, "' takes at most ", macro.parameters.size(), " argument(s)"));
  }
  return InNewScope(function.scope, [&](Scope* scope) -> Result {
    for (const auto& [name, value] : arguments.named) {
      const auto known = std::find_if(macro.parameters.begin(), macro.parameters.end(),
                                      [&name = name](const auto& parameter) { return parameter.first == name; });
      if (known == macro.parameters.end()) {
        return Error(absl::StrCat("macro '", function.name, "' has no parameter '", name, "'"));
      }
      if (known - macro.parameters.begin() < static_cast<int64_t>(arguments.positional.size())) {
        return Error(absl::StrCat("macro '", function.name, "' is given '", name, "' twice"));
      }
      scope->names[name] = value;
    }
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const auto& [name, otherwise] = macro.parameters[i];
      if (i < arguments.positional.size()) {
        scope->names[name] = arguments.positional[i];
      } else if (scope->names.count(name) == 0 && otherwise != nullptr) {
        DISTILL_ASSIGN_OR_RETURN(scope->names[name], Evaluate(*otherwise, scope));
      } else if (scope->names.count(name) == 0) {
        scope->names[name] = Value::MakeUndefined(absl::StrCat("parameter '", name, "' was not provided"));
      }
    }
    DISTILL_ASSIGN_OR_RETURN(std::string text, Capture(macro.body, scope));
    return Value(std::move(text));
  });
}

absl::StatusOr<std::vector<Value>> Evaluator::EvaluateAll(const Expression& node, size_t first, Scope* scope) {
  std::vector<Value> values;
  for (size_t i = first; i < node.children.size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(Value value, Evaluate(*node.children[i], scope));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Arguments> Evaluator::EvaluateArguments(const Expression& node, Scope* scope) {
  Arguments arguments;
  DISTILL_ASSIGN_OR_RETURN(arguments.positional, EvaluateAll(node, 1, scope));
  for (const auto& [name, child] : node.keywords) {
    DISTILL_ASSIGN_OR_RETURN(Value value, Evaluate(*child, scope));
    arguments.named.emplace_back(name, std::move(value));
  }
  return arguments;
}

}  // namespace distill::jinja
