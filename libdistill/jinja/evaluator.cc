#include "libdistill/jinja/evaluator.h"

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/loop.h"

namespace distill::jinja {
namespace {

constexpr int64_t kStepsPerIteration = 20;  // what a loop costs besides its body, about

constexpr int64_t kBytesPerMacro = 4096;  // the scopes around it stay, about

// "{% for %}", "{{ }}": how errors call it. In the order of the kinds.
const char* NameOf(Statement::Kind kind) {
  static constexpr const char* kNames[] = {
      "text",        "{{ }}",      "{% if %}",   "{% for %}",        "{% set %}",   "{% set %}",     "{% filter %}",
      "{% macro %}", "{% call %}", "{% with %}", "{% generation %}", "{% break %}", "{% continue %}"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

Evaluator::Evaluator(const std::vector<std::pair<std::string, Value>>& variables) {
  for (const auto& [name, value] : variables) scopes_.root().names[name] = value;
}

Evaluator::~Evaluator() {
  for (const std::shared_ptr<Dict>& space : namespaces_) space->entries.clear();
}

absl::Status Evaluator::RunBlock(const Block& block, Scope* scope) {
  for (const Statement& statement : block) {
    DISTILL_RETURN_IF_ERROR(budget_.Enter());
    absl::Status status = RunStatement(statement, scope);
    budget_.Leave();
    if (!status.ok() && !located_) {
      located_ = true;
      status = Annotate(status, absl::StrCat("line ", statement.line, ", ", NameOf(statement.kind)));
    }
    DISTILL_RETURN_IF_ERROR(status);
    if (flow_ != Flow::kNext) break;
  }
  return absl::OkStatus();
}

absl::Status Evaluator::RunStatement(const Statement& statement, Scope* scope) {
  switch (statement.kind) {
    case Statement::Kind::kText:
      return Write(statement.text);
    case Statement::Kind::kOutput: {
      DISTILL_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.value, scope));
      return Write(ToText(value));
    }
    case Statement::Kind::kIf:
      return RunIf(statement, scope);
    case Statement::Kind::kFor:
      return RunFor(statement, scope);
    case Statement::Kind::kSet: {
      DISTILL_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.value, scope));
      return Assign(*statement.target, value, scope);
    }
    case Statement::Kind::kSetBlock: {
      DISTILL_ASSIGN_OR_RETURN(const Value text, FilteredBody(statement, scope));
      return Assign(*statement.target, text, scope);
    }
    case Statement::Kind::kFilterBlock: {
      DISTILL_ASSIGN_OR_RETURN(const Value text, FilteredBody(statement, scope));
      return Write(ToText(text));
    }
    case Statement::Kind::kMacro:
      scope->names[statement.text] = MakeMacro(statement, statement.text, scope);
      return budget_.Build(kBytesPerMacro);
    case Statement::Kind::kCallBlock:
      return RunCallBlock(statement, scope);
    case Statement::Kind::kWith:
      return RunWith(statement, scope);
    case Statement::Kind::kGeneration:
      return RunGeneration(statement, scope);
    case Statement::Kind::kBreak:
    case Statement::Kind::kContinue:
      flow_ = statement.kind == Statement::Kind::kBreak ? Flow::kBreak : Flow::kContinue;
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Evaluator::RunIf(const Statement& statement, Scope* scope) {
  for (const auto& [condition, body] : statement.branches) {
    DISTILL_ASSIGN_OR_RETURN(const Value value, Evaluate(*condition, scope));
    if (IsTrue(value)) return RunBlock(body, scope);
  }
  return RunBlock(statement.otherwise, scope);
}

absl::Status Evaluator::RunFor(const Statement& statement, Scope* scope) {
  DISTILL_ASSIGN_OR_RETURN(const Value sequence, Evaluate(*statement.value, scope));
  return RunLoop(statement, sequence, 0, scope);
}

absl::Status Evaluator::RunLoop(const Statement& statement, const Value& sequence, int depth0, Scope* scope) {
  Loop::Keeps keeps;
  if (statement.condition != nullptr) {
    keeps = [&](const Value& item) -> absl::StatusOr<bool> {
      DISTILL_ASSIGN_OR_RETURN(const Value holds, scopes_.InNewScope(scope, [&](Scope* inner) -> Result {
        DISTILL_RETURN_IF_ERROR(Assign(*statement.target, item, inner));
        return Evaluate(*statement.condition, inner);
      }));
      return IsTrue(holds);
    };
  }
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Loop> loop, Loop::Create(sequence, std::move(keeps), depth0, budget_));
  const absl::Cleanup finish = [&loop] { loop->Finish(); };
  if (statement.is_recursive) {
    loop->statement = &statement;
    loop->scope = scope;
  }
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(const std::optional<Value> item, loop->Advance());
    if (!item.has_value()) break;
    DISTILL_RETURN_IF_ERROR(budget_.Steps(kStepsPerIteration));
    DISTILL_RETURN_IF_ERROR(scopes_.InNewScope(scope, [&](Scope* inner) -> absl::Status {
      inner->names["loop"] = Value(std::shared_ptr<Object>(loop));
      DISTILL_RETURN_IF_ERROR(Assign(*statement.target, *item, inner));
      return RunBlock(statement.body, inner);
    }));
    if (std::exchange(flow_, Flow::kNext) == Flow::kBreak) break;
  }
  if (loop->any()) return absl::OkStatus();
  return scopes_.InNewScope(scope, [&](Scope* inner) { return RunBlock(statement.otherwise, inner); });
}

Value Evaluator::MakeMacro(const Statement& statement, const std::string& name, Scope* scope) {
  scopes_.NoteMacro();
  return Value(MakeFunction({Function::Kind::kMacro, name, Value(), &statement, scope}));
}

absl::Status Evaluator::RunCallBlock(const Statement& statement, Scope* scope) {
  const Expression& call = *statement.value;
  DISTILL_ASSIGN_OR_RETURN(const Value callee, Evaluate(*call.children[0], scope));
  DISTILL_ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(call, scope));
  arguments.named.emplace_back("caller", MakeMacro(statement, "caller", scope));
  DISTILL_ASSIGN_OR_RETURN(const Value value, CallWith(callee, arguments));
  return Write(ToText(value));
}

absl::Status Evaluator::RunWith(const Statement& statement, Scope* scope) {
  return scopes_.InNewScope(scope, [&](Scope* inner) -> absl::Status {
    for (const auto& [name, expression] : statement.parameters) {
      DISTILL_ASSIGN_OR_RETURN(inner->names[name], Evaluate(*expression, scope));
    }
    return RunBlock(statement.body, inner);
  });
}

absl::Status Evaluator::RunGeneration(const Statement& statement, Scope* scope) {
  if (captures_ > 0 || in_generation_) {
    return Error("{% generation %} within a macro, a {% set %} block or another {% generation %} is not supported");
  }
  const size_t begin = output_.text.size();
  in_generation_ = true;
  DISTILL_RETURN_IF_ERROR(scopes_.InNewScope(scope, [&](Scope* inner) { return RunBlock(statement.body, inner); }));
  in_generation_ = false;
  output_.generation.emplace_back(begin, output_.text.size());
  return absl::OkStatus();
}

absl::Status Evaluator::Assign(const Expression& target, const Value& value, Scope* scope) {
  if (target.kind == Expression::Kind::kName) {
    scope->names[target.name] = value;
    return absl::OkStatus();
  }
  if (target.kind == Expression::Kind::kAttribute) {
    DISTILL_ASSIGN_OR_RETURN(const Value space, Evaluate(*target.children[0], scope));
    if (space.dict() == nullptr || space.dict()->kind != Dict::Kind::kNamespace) {
      return Error("only a namespace's attributes can be set");
    }
    if (target.name[0] == '_') return Error(absl::StrCat("a namespace cannot hold '", Shorten(target.name), "'"));
    space.dict()->Set(Value(target.name), value);
    return absl::OkStatus();
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value));
  DISTILL_RETURN_IF_ERROR(budget_.ReadItems(items.size()));
  if (items.size() != target.children.size()) {
    return Error(absl::StrCat(items.size(), " values for ", target.children.size(), " names"));
  }
  for (size_t i = 0; i < items.size(); ++i) DISTILL_RETURN_IF_ERROR(Assign(*target.children[i], items[i], scope));
  return absl::OkStatus();
}

absl::Status Evaluator::Write(const std::string& text) {
  if (output_.text.size() + text.size() > kMaxTextBytes) return Error("the output grows beyond 64 MiB");
  output_.text += text;
  return budget_.Build(static_cast<int64_t>(text.size()));
}

absl::StatusOr<std::string> Evaluator::Capture(absl::FunctionRef<absl::Status()> write) {
  std::string outer;
  std::swap(outer, output_.text);
  ++captures_;
  const absl::Status status = write();
  --captures_;
  std::swap(outer, output_.text);
  DISTILL_RETURN_IF_ERROR(status);
  return outer;
}

Evaluator::Result Evaluator::FilteredBody(const Statement& statement, Scope* scope) {
  return scopes_.InNewScope(scope, [&](Scope* inner) -> Result {
    DISTILL_ASSIGN_OR_RETURN(std::string text, Capture([&] { return RunBlock(statement.body, inner); }));
    if (statement.value == nullptr) return Value(std::move(text));
    inner->names[kBlockText] = Value(std::move(text));
    return Evaluate(*statement.value, inner);
  });
}

}  // namespace distill::jinja
