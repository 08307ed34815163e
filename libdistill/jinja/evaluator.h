// Runs the statements of a syntax tree. One evaluator is for one rendering.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/jinja/ast.h"
#include "libdistill/jinja/builtins.h"
#include "libdistill/jinja/expression_evaluator.h"
#include "libdistill/jinja/scopes.h"
#include "libdistill/jinja/step_limit.h"
#include "libdistill/jinja/template.h"

namespace distill::jinja {

class TemplateEvaluator {
 public:
  explicit TemplateEvaluator(const std::vector<std::pair<std::string, Value>>& variables);

  absl::Status Run(const Block& block);
  Output TakeOutput() { return std::move(output_); }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  absl::Status RunBlock(const Block& block, Scope* scope);
  absl::Status RunStatement(const Statement& statement, Scope* scope);
  absl::Status RunIf(const Statement& statement, Scope* scope);
  absl::Status RunFor(const Statement& statement, Scope* scope);
  absl::Status RunGeneration(const Statement& statement, Scope* scope);
  absl::Status DefineMacro(const Statement& statement, Scope* scope);
  absl::Status Assign(const Expression& target, const Value& value, Scope* scope);
  absl::Status Write(const std::string& text);
  absl::StatusOr<std::string> Capture(const Block& block, Scope* scope);

  Output output_;
  int captures_ = 0;  // output goes to a macro's or block's text, not to the rendering
  bool in_generation_ = false;
  Flow flow_ = Flow::kNext;
  bool located_ = false;  // the error names its line already
  StepLimit limit_;
  Scopes scopes_;
  ExpressionEvaluator expressions_;
};

}  // namespace distill::jinja
