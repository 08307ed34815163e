#include "libdistill/jinja/expression_evaluator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/operators.h"

namespace distill::jinja {

using Result = absl::StatusOr<Value>;

ExpressionEvaluator::~ExpressionEvaluator() {
  for (const std::shared_ptr<Dict>& space : namespaces_) space->entries.clear();
}

Result ExpressionEvaluator::Evaluate(const Expression& node, Scope* scope) {
  DISTILL_RETURN_IF_ERROR(limit_.Enter());
  Result result = EvaluateNode(node, scope);
  limit_.Leave();
  return result;
}

Result ExpressionEvaluator::EvaluateNode(const Expression& node, Scope* scope) {
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

Result ExpressionEvaluator::EvaluateName(const Expression& node, Scope* scope) {
  for (const Scope* inner = scope; inner != nullptr; inner = inner->parent) {
    if (const auto found = inner->names.find(node.name); found != inner->names.end()) return found->second;
  }
  if (!HasGlobal(node.name)) return Value::MakeUndefined(absl::StrCat("'", node.name, "' is undefined"));
  auto function = std::make_shared<Function>();
  function->name = node.name;
  return Value(std::shared_ptr<const Function>(std::move(function)));
}

Result ExpressionEvaluator::EvaluateDict(const Expression& node, Scope* scope) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> values, EvaluateAll(node, 0, scope));
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < values.size(); i += 2)
    entries.emplace_back(std::move(values[i]), std::move(values[i + 1]));
  return MakeDict(std::move(entries));
}

Result ExpressionEvaluator::EvaluateSlice(const Expression& node, Scope* scope) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i) {
    if (node.children[i] == nullptr) continue;
    DISTILL_ASSIGN_OR_RETURN(parts[i], Evaluate(*node.children[i], scope));
  }
  return Slice(parts[0], parts[1], parts[2], parts[3]);
}

Result ExpressionEvaluator::EvaluateCompare(const Expression& node, Scope* scope) {
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

Result ExpressionEvaluator::EvaluateCall(const Expression& node, Scope* scope) {
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

Result ExpressionEvaluator::CallMacro(const Function& function, const Arguments& arguments) {
  const Statement& macro = *function.macro;
  if (arguments.positional.size() > macro.parameters.size()) {
    return Error(absl::StrCat("macro '", function.name, "' takes at most ", macro.parameters.size(), " argument(s)"));
  }
  return scopes_.InNewScope(function.scope, [&](Scope* scope) -> Result {
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
    DISTILL_ASSIGN_OR_RETURN(std::string text, capture_(macro.body, scope));
    return Value(std::move(text));
  });
}

absl::StatusOr<std::vector<Value>> ExpressionEvaluator::EvaluateAll(const Expression& node, size_t first,
                                                                    Scope* scope) {
  std::vector<Value> values;
  for (size_t i = first; i < node.children.size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(Value value, Evaluate(*node.children[i], scope));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Arguments> ExpressionEvaluator::EvaluateArguments(const Expression& node, Scope* scope) {
  Arguments arguments;
  DISTILL_ASSIGN_OR_RETURN(arguments.positional, EvaluateAll(node, 1, scope));
  for (const auto& [name, child] : node.keywords) {
    DISTILL_ASSIGN_OR_RETURN(Value value, Evaluate(*child, scope));
    arguments.named.emplace_back(name, std::move(value));
  }
  return arguments;
}

}  // namespace distill::jinja
