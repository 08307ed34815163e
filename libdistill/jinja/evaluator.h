// Runs a syntax tree. One evaluator is for one rendering.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
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

// The names that a rendering knows.
class Scopes {
 public:
  Scope& root() { return root_; }
  // A macro that is defined refers to the scopes around it, which stay from then on.
  void NoteMacro() { ++macros_; }
  // Runs body(scope) in a new scope, which stays where a macro that may refer to it was defined meanwhile.
  template <typename Body>
  auto InNewScope(Scope* parent, const Body& body) {
    const size_t kept = scopes_.size();
    const int64_t macros = macros_;
    scopes_.push_back(std::make_unique<Scope>(Scope{parent, {}}));
    auto result = body(scopes_.back().get());
    if (macros_ == macros) scopes_.resize(kept);
    return result;
  }

 private:
  Scope root_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  int64_t macros_ = 0;
};

class Evaluator {
 public:
  explicit Evaluator(const std::vector<std::pair<std::string, Value>>& variables);
  ~Evaluator();

  absl::Status Run(const Block& block) { return RunBlock(block, &scopes_.root()); }
  Output TakeOutput() { return std::move(output_); }

 private:
  using Result = absl::StatusOr<Value>;
  enum class Flow { kNext, kBreak, kContinue };

  // evaluator.cc: statements.
  absl::Status RunBlock(const Block& block, Scope* scope);
  absl::Status RunStatement(const Statement& statement, Scope* scope);
  absl::Status RunIf(const Statement& statement, Scope* scope);
  absl::Status RunFor(const Statement& statement, Scope* scope);
  // One loop, at its depth within loops that are the same statement.
  absl::Status RunLoop(const Statement& statement, const Value& sequence, int depth0, Scope* scope);
  absl::Status RunCallBlock(const Statement& statement, Scope* scope);
  absl::Status RunWith(const Statement& statement, Scope* scope);
  Value MakeMacro(const Statement& statement, const std::string& name, Scope* scope);
  absl::Status RunGeneration(const Statement& statement, Scope* scope);
  absl::Status Assign(const Expression& target, const Value& value, Scope* scope);
  absl::Status Write(const std::string& text);
  // What `write` writes, as a text.
  absl::StatusOr<std::string> Capture(absl::FunctionRef<absl::Status()> write);
  // The text of a block's body, through its filters.
  Result FilteredBody(const Statement& statement, Scope* scope);

  // expression_evaluator.cc: what an expression comes to.
  Result Evaluate(const Expression& node, Scope* scope);
  Result EvaluateNode(const Expression& node, Scope* scope);
  Result EvaluateName(const Expression& node, Scope* scope);
  Result EvaluateCompare(const Expression& node, Scope* scope);
  Result EvaluateCall(const Expression& node, Scope* scope);
  Result CallWith(const Value& callee, const Arguments& arguments);
  Result CallMacro(const Function& macro, const Arguments& arguments);
  absl::Status BindParameters(const Function& macro, const Arguments& arguments, Scope* scope);
  // All children from `first` on; those that are null are undefined.
  absl::StatusOr<std::vector<Value>> EvaluateAll(const Expression& node, size_t first, Scope* scope);
  absl::StatusOr<Arguments> EvaluateArguments(const Expression& node, Scope* scope);

  Output output_;
  int captures_ = 0;  // output goes to a macro's or block's text, not to the rendering
  bool in_generation_ = false;
  Flow flow_ = Flow::kNext;
  bool located_ = false;  // the error names its line already
  Budget budget_;
  Scopes scopes_;
  std::vector<std::shared_ptr<Dict>> namespaces_;  // emptied at the end: they may hold one another
};

}  // namespace distill::jinja
