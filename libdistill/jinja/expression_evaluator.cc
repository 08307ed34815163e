#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/evaluator.h"
#include "libdistill/jinja/loop.h"

namespace distill::jinja {

Result Evaluator::Evaluate(const Expression& node, Scope* scope) {
  DISTILL_RETURN_IF_ERROR(budget_.Enter());
  Result result = EvaluateNode(node, scope);
  budget_.Leave();
  return result;
}

Result Evaluator::EvaluateNode(const Expression& node, Scope* scope) {
  using Kind = Expression::Kind;
  switch (node.kind) {
    case Kind::kConstant:
      return node.constant;
    case Kind::kName:
      return EvaluateName(node, scope);
    case Kind::kCompare:
      return EvaluateCompare(node, scope);
    case Kind::kCall:
      return EvaluateCall(node, scope);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kSlice: {
      DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, EvaluateAll(node, 0, scope));
      if (node.kind == Kind::kSlice) {
        DISTILL_RETURN_IF_ERROR(budget_.ReadShallow(items[0]));
        DISTILL_ASSIGN_OR_RETURN(Value part, Slice(items[0], items[1], items[2], items[3]));
        DISTILL_RETURN_IF_ERROR(budget_.BuildShallow(part));
        return part;
      }
      DISTILL_RETURN_IF_ERROR(budget_.BuildItems(items.size()));
      if (node.kind != Kind::kDict)
        return MakeList(std::move(items), node.kind == Kind::kTuple ? List::Kind::kTuple : List::Kind::kList);
      std::vector<std::pair<Value, Value>> entries;
      for (size_t i = 0; i + 1 < items.size(); i += 2) entries.emplace_back(items[i], items[i + 1]);
      return MakeDict(std::move(entries));
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
      return ApplyOperator("-", first.IsNumber() && !first.IsInteger() ? Value(-0.0) : Value(0), first, budget_);
    case Kind::kPositive:
      return first.IsNumber() ? first : ApplyOperator("+", Value(0), first, budget_);
    case Kind::kAttribute:
      return GetAttribute(first, node.name);
    case Kind::kFilter: {
      DISTILL_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node, scope));
      return Filters().at(node.name).Call(first, arguments, budget_);
    }
    case Kind::kTest: {
      DISTILL_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node, scope));
      if (!arguments.named.empty()) return Error(absl::StrCat("the test '", node.name, "' takes no named arguments"));
      DISTILL_ASSIGN_OR_RETURN(const bool holds, ApplyTest(node.name, first, arguments.positional, budget_));
      return Value(holds);
    }
    default:
      break;
  }
  DISTILL_ASSIGN_OR_RETURN(const Value second, Evaluate(*node.children[1], scope));
  if (node.kind != Kind::kItem) return ApplyOperator(node.name, first, second, budget_);
  if (first.IsString()) DISTILL_RETURN_IF_ERROR(budget_.ReadShallow(first));
  return GetItem(first, second);
}

Result Evaluator::EvaluateName(const Expression& node, Scope* scope) {
  for (const Scope* inner = scope; inner != nullptr; inner = inner->parent) {
    if (const auto found = inner->names.find(node.name); found != inner->names.end()) return found->second;
  }
  if (Globals().count(node.name) == 0) return Value::MakeUndefined(absl::StrCat("'", node.name, "' is undefined"));
  return Value(MakeFunction({Function::Kind::kGlobal, node.name}));
}

Result Evaluator::EvaluateCompare(const Expression& node, Scope* scope) {
  DISTILL_ASSIGN_OR_RETURN(Value left, Evaluate(*node.children[0], scope));
  for (size_t i = 0; i < node.operators.size(); ++i) {
    const std::string& name = node.operators[i];
    DISTILL_ASSIGN_OR_RETURN(Value right, Evaluate(*node.children[i + 1], scope));
    bool holds = false;
    DISTILL_RETURN_IF_ERROR(name == "in" || name == "not in" ? ChargeContains(right, left, budget_)
                                                             : ChargeComparison(left, right, budget_));
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
  DISTILL_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node, scope));
  return CallWith(callee, arguments);
}

Result Evaluator::CallWith(const Value& callee, const Arguments& arguments) {
  if (const auto* loop = dynamic_cast<const Loop*>(callee.object())) {
    if (loop->statement == nullptr)
      return Error("only a loop that is marked 'recursive' can be called, and within itself");
    if (arguments.positional.size() != 1 || !arguments.named.empty()) return Error("loop() takes one sequence");
    DISTILL_ASSIGN_OR_RETURN(
        std::string text,
        Capture([&] { return RunLoop(*loop->statement, arguments.positional[0], loop->depth0() + 1, loop->scope); }));
    return Value(std::move(text));
  }
  const Function* function = callee.function();
  if (function == nullptr) {
    return Error(callee.IsUndefined() ? callee.reason() : absl::StrCat(TypeName(callee), " cannot be called"));
  }
  if (function->kind == Function::Kind::kMacro) return CallMacro(*function, arguments);
  if (function->kind == Function::Kind::kMethod) {
    return MethodsOf(function->receiver).at(function->name).Call(function->receiver, arguments, budget_);
  }
  DISTILL_ASSIGN_OR_RETURN(Value value, Globals().at(function->name).Call(Value(), arguments, budget_));
  if (value.dict() != nullptr && value.dict()->kind == Dict::Kind::kNamespace) {
    namespaces_.push_back(value.shared_dict());
    DISTILL_RETURN_IF_ERROR(budget_.BuildItems(1));
  }
  return value;
}

Result Evaluator::CallMacro(const Function& function, const Arguments& arguments) {
  return scopes_.InNewScope(function.scope, [&](Scope* scope) -> Result {
    DISTILL_RETURN_IF_ERROR(BindParameters(function, arguments, scope));
    DISTILL_ASSIGN_OR_RETURN(std::string text, Capture([&] { return RunBlock(function.macro->body, scope); }));
    return Value(std::move(text));
  });
}

// Those left over are `varargs`, `kwargs` and `caller`, where the body names them.
absl::Status Evaluator::BindParameters(const Function& function, const Arguments& arguments, Scope* scope) {
  const Statement& macro = *function.macro;
  const size_t given = std::min(arguments.positional.size(), macro.parameters.size());
  if (given < arguments.positional.size() && !macro.uses_varargs) {
    return Error(absl::StrCat("macro '", function.name, "' takes at most ", macro.parameters.size(), " argument(s)"));
  }
  DISTILL_RETURN_IF_ERROR(budget_.ReadItems(arguments.named.size() * macro.parameters.size()));
  std::vector<std::pair<Value, Value>> others;
  if (macro.uses_caller) scope->names["caller"] = Value::MakeUndefined("No caller defined");
  for (const auto& [argument, value] : arguments.named) {
    const std::string& name = argument;
    const auto known =
        absl::c_find_if(macro.parameters, [&](const auto& parameter) { return parameter.first == name; });
    if (known != macro.parameters.end()) {
      if (known - macro.parameters.begin() < static_cast<int64_t>(given)) {
        return Error(absl::StrCat("macro '", function.name, "' is given '", name, "' twice"));
      }
      scope->names[name] = value;
    } else if (macro.uses_caller && name == "caller") {
      scope->names[name] = value;
    } else if (macro.uses_kwargs) {
      others.emplace_back(name, value);
    } else {
      return Error(absl::StrCat("macro '", function.name, "' has no parameter '", Shorten(name), "'"));
    }
  }
  if (macro.uses_varargs) {
    DISTILL_ASSIGN_OR_RETURN(scope->names["varargs"],
                             MakeTuple({arguments.positional.begin() + given, arguments.positional.end()}));
  }
  if (macro.uses_kwargs) {
    DISTILL_ASSIGN_OR_RETURN(scope->names["kwargs"], MakeDict(std::move(others)));
  }
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& [name, otherwise] = macro.parameters[i];
    if (i < given) {
      scope->names[name] = arguments.positional[i];
    } else if (scope->names.count(name) == 0 && otherwise != nullptr) {
      DISTILL_ASSIGN_OR_RETURN(scope->names[name], Evaluate(*otherwise, scope));
    } else if (scope->names.count(name) == 0) {
      scope->names[name] = Value::MakeUndefined(absl::StrCat("parameter '", name, "' was not provided"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Value>> Evaluator::EvaluateAll(const Expression& node, size_t first, Scope* scope) {
  std::vector<Value> values;
  for (size_t i = first; i < node.children.size(); ++i) {
    Value& value = values.emplace_back();
    if (node.children[i] == nullptr) continue;
    DISTILL_ASSIGN_OR_RETURN(value, Evaluate(*node.children[i], scope));
  }
  return values;
}

absl::StatusOr<Arguments> Evaluator::EvaluateArguments(const Expression& node, Scope* scope) {
  Arguments arguments;
  DISTILL_ASSIGN_OR_RETURN(arguments.positional, EvaluateAll(node, 1, scope));
  for (const auto& [name, child] : node.keywords) {
    DISTILL_ASSIGN_OR_RETURN(arguments.named.emplace_back(name, Value()).second, Evaluate(*child, scope));
  }
  if (node.spread != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(const Value spread, Evaluate(*node.spread, scope));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> more, Iterate(spread));
    DISTILL_RETURN_IF_ERROR(budget_.BuildItems(more.size()));
    arguments.positional.insert(arguments.positional.end(), more.begin(), more.end());
  }
  if (node.named_spread != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(const Value spread, Evaluate(*node.named_spread, scope));
    const Dict* dict = spread.dict();
    if (dict == nullptr || dict->kind != Dict::Kind::kDict)
      return Error(absl::StrCat("'**' needs a dict, not ", TypeName(spread)));
    DISTILL_RETURN_IF_ERROR(budget_.BuildItems(dict->entries.size()));
    for (const auto& [key, value] : dict->entries) {
      if (!key.IsString()) return Error("'**' needs a dict whose keys are strings");
      const std::string& name = *key.text();
      if (absl::c_any_of(node.keywords, [&](const auto& keyword) { return keyword.first == name; })) {
        return Error(absl::StrCat("the argument '", Shorten(name), "' is given twice"));
      }
      arguments.named.emplace_back(name, value);
    }
  }
  return arguments;
}

}  // namespace distill::jinja
