// What an expression comes to, for one rendering.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/jinja/ast.h"
#include "libdistill/jinja/builtins.h"
#include "libdistill/jinja/scopes.h"
#include "libdistill/jinja/step_limit.h"

namespace distill::jinja {

class ExpressionEvaluator {
 public:
  using Result = absl::StatusOr<Value>;
  // The text of a macro's body.
  using Capture = std::function<absl::StatusOr<std::string>(const Block& body, Scope* scope)>;

  // Both must outlive it.
  ExpressionEvaluator(Scopes& scopes, StepLimit& limit, Capture capture)
      : scopes_(scopes), limit_(limit), capture_(std::move(capture)) {}
  ~ExpressionEvaluator();

  Result Evaluate(const Expression& node, Scope* scope);

 private:
  Result EvaluateNode(const Expression& node, Scope* scope);
  Result EvaluateName(const Expression& node, Scope* scope);
  Result EvaluateDict(const Expression& node, Scope* scope);
  Result EvaluateSlice(const Expression& node, Scope* scope);
  Result EvaluateCompare(const Expression& node, Scope* scope);
  Result EvaluateCall(const Expression& node, Scope* scope);
  Result CallMacro(const Function& macro, const Arguments& arguments);
  absl::StatusOr<std::vector<Value>> EvaluateAll(const Expression& node, size_t first, Scope* scope);
  absl::StatusOr<Arguments> EvaluateArguments(const Expression& node, Scope* scope);

  Scopes& scopes_;
  StepLimit& limit_;
  const Capture capture_;
  std::vector<std::shared_ptr<Dict>> namespaces_;  // emptied at the end: they may hold one another
};

}  // namespace distill::jinja
