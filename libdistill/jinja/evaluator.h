// Runs a syntax tree. One evaluator is for one rendering.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/jinja/ast.h"
#include "libdistill/jinja/builtins.h"
#include "libdistill/jinja/template.h"

namespace distill::jinja {

// Names of a block. Loops and macros open one of their own: what they set is gone after them.
struct Scope {
  Scope* parent = nullptr;
  std::map<std::string, Value> names;
};

class TemplateEvaluator {
 public:
  explicit TemplateEvaluator(const std::vector<std::pair<std::string, Value>>& variables);
  ~TemplateEvaluator();

  absl::Status Run(const Block& block);
  Output TakeOutput() { return std::move(output_); }

 private:
  using Result = absl::StatusOr<Value>;
  enum class Flow { kNext, kBreak, kContinue };

  // Statements (evaluator.cc).
  absl::Status RunBlock(const Block& block, Scope* scope);
  absl::Status RunStatement(const Statement& statement, Scope* scope);
  absl::Status RunIf(const Statement& statement, Scope* scope);
  absl::Status RunFor(const Statement& statement, Scope* scope);
  absl::Status RunGeneration(const Statement& statement, Scope* scope);
  absl::Status DefineMacro(const Statement& statement, Scope* scope);
  absl::Status Assign(const Expression& target, const Value& value, Scope* scope);
  absl::Status Write(const std::string& text);
  absl::StatusOr<std::string> Capture(const Block& block, Scope* scope);
  // Runs body(scope) in a new scope, which lives on where a macro that may refer to it was defined meanwhile.
  template <typename Body>
  auto InNewScope(Scope* parent, const Body& body) {
    const size_t kept = scopes_.size();
    const int64_t macros = macros_;
    scopes_.push_back(std::make_unique<Scope>(Scope{parent, {}}));
    auto result = body(scopes_.back().get());
    if (macros_ == macros) scopes_.resize(kept);
    return result;
  }

  // Expressions (evaluator_expressions.cc).
  Result Evaluate(const Expression& node, Scope* scope);
  Result EvaluateNode(const Expression& node, Scope* scope);
  Result EvaluateName(const Expression& node, Scope* scope);
  Result EvaluateDict(const Expression& node, Scope* scope);
  Result EvaluateSlice(const Expression& node, Scope* scope);
  Result EvaluateCompare(const Expression& node, Scope* scope);
  Result EvaluateCall(const Expression& node, Scope* scope);
  Result CallMacro(const Function& macro, const Arguments& arguments);
  absl::StatusOr<std::vector<Value>> EvaluateAll(const Expression& node, size_t first, Scope* scope);
  absl::StatusOr<Arguments> EvaluateArguments(const Expression& node, Scope* scope);
  // One more step, one level deeper; InvalidArgument beyond the limits.
  absl::Status Enter();

  Output output_;
  int captures_ = 0;  // output goes to a macro's or block's text, not to the rendering
  bool in_generation_ = false;
  Flow flow_ = Flow::kNext;
  bool located_ = false;  // the error names its line already
  int depth_ = 0;
  int64_t steps_ = 0, macros_ = 0;
  Scope root_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<std::shared_ptr<Dict>> namespaces_;  // emptied at the end: they may hold one another
};

}  // namespace distill::jinja
