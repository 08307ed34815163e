#include "libdistill/jinja/evaluator.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill::jinja {
namespace {

constexpr int64_t kStepsPerIteration = 20;  // what a loop costs besides its body, about

// "{% for %}", "{{ }}": how errors call it. In the order of the kinds.
const char* NameOf(Statement::Kind kind) {
  static constexpr const char* kNames[] = {"text",        "{{ }}",         "{% if %}",    "{% for %}",
                                           "{% set %}",   "{% set %}",     "{% macro %}", "{% generation %}",
                                           "{% break %}", "{% continue %}"};
  return kNames[static_cast<size_t>(kind)];
}

// The names that a loop's body sees as "loop".
absl::StatusOr<Value> LoopVariable(const std::vector<Value>& items, size_t i) {
  static const Value kIndex("index"), kIndex0("index0"), kRevIndex("revindex"), kRevIndex0("revindex0"),
      kFirst("first"), kLast("last"), kLength("length"), kPrevious("previtem"), kNext("nextitem"),
      kNoPrevious = Value::MakeUndefined("there is no previous item"),
      kNoNext = Value::MakeUndefined("there is no next item");
  const auto count = [](size_t n) { return Value::MakeCount(n); };
  DISTILL_ASSIGN_OR_RETURN(Value loop, MakeDict({{kIndex, count(i + 1)},
                                                 {kIndex0, count(i)},
                                                 {kRevIndex, count(items.size() - i)},
                                                 {kRevIndex0, count(items.size() - i - 1)},
                                                 {kFirst, Value(i == 0)},
                                                 {kLast, Value(i + 1 == items.size())},
                                                 {kLength, count(items.size())},
                                                 {kPrevious, i == 0 ? kNoPrevious : items[i - 1]},
                                                 {kNext, i + 1 == items.size() ? kNoNext : items[i + 1]}}));
  loop.dict()->kind = Dict::Kind::kLoop;
  return loop;
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
    DISTILL_RETURN_IF_ERROR(limit_.Enter());
    absl::Status status = RunStatement(statement, scope);
    limit_.Leave();
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
      DISTILL_ASSIGN_OR_RETURN(std::string text,
                               scopes_.InNewScope(scope, [&](Scope* inner) { return Capture(statement.body, inner); }));
      return Assign(*statement.target, Value(std::move(text)), scope);
    }
    case Statement::Kind::kMacro:
      scopes_.NoteMacro();
      scope->names[statement.text] =
          Value(MakeFunction({Function::Kind::kMacro, statement.text, Value(), &statement, scope}));
      return absl::OkStatus();
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
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(sequence));
  if (statement.condition != nullptr) {
    std::vector<Value> selected;
    for (const Value& item : items) {
      DISTILL_ASSIGN_OR_RETURN(const Value keeps, scopes_.InNewScope(scope, [&](Scope* inner) -> absl::StatusOr<Value> {
        DISTILL_RETURN_IF_ERROR(Assign(*statement.target, item, inner));
        return Evaluate(*statement.condition, inner);
      }));
      if (IsTrue(keeps)) selected.push_back(item);
    }
    items = std::move(selected);
  }
  for (size_t i = 0; i < items.size(); ++i) {
    DISTILL_RETURN_IF_ERROR(limit_.Take(kStepsPerIteration));
    DISTILL_RETURN_IF_ERROR(scopes_.InNewScope(scope, [&](Scope* inner) -> absl::Status {
      DISTILL_RETURN_IF_ERROR(Assign(*statement.target, items[i], inner));
      DISTILL_ASSIGN_OR_RETURN(inner->names["loop"], LoopVariable(items, i));
      return RunBlock(statement.body, inner);
    }));
    const Flow flow = std::exchange(flow_, Flow::kNext);
    if (flow == Flow::kBreak) break;
  }
  if (!items.empty()) return absl::OkStatus();
  return scopes_.InNewScope(scope, [&](Scope* inner) { return RunBlock(statement.otherwise, inner); });
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
    if (target.name[0] == '_') return Error(absl::StrCat("a namespace cannot hold '", target.name, "'"));
    space.dict()->Set(Value(target.name), value);
    return absl::OkStatus();
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value));
  if (items.size() != target.children.size()) {
    return Error(absl::StrCat(items.size(), " values for ", target.children.size(), " names"));
  }
  for (size_t i = 0; i < items.size(); ++i) scope->names[target.children[i]->name] = items[i];
  return absl::OkStatus();
}

absl::Status Evaluator::Write(const std::string& text) {
  output_.text += text;
  return output_.text.size() > kMaxTextBytes ? Error("the output grows beyond 64 MiB") : absl::OkStatus();
}

absl::StatusOr<std::string> Evaluator::Capture(const Block& block, Scope* scope) {
  std::string outer;
  std::swap(outer, output_.text);
  ++captures_;
  const absl::Status status = RunBlock(block, scope);
  --captures_;
  std::swap(outer, output_.text);
  DISTILL_RETURN_IF_ERROR(status);
  return outer;
}

}  // namespace distill::jinja
