#include "libdistill/jinja/template.h"

#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/evaluator.h"
#include "libdistill/jinja/parser.h"

namespace distill::jinja {

absl::StatusOr<Template> Template::Parse(absl::string_view source) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<Token> tokens, Lex(source));
  DISTILL_ASSIGN_OR_RETURN(ParsedTemplate parsed, Parser(std::move(tokens)).Run());
  return Template(std::make_shared<const ParsedTemplate>(std::move(parsed)));
}

absl::StatusOr<Output> Template::Render(const std::vector<std::pair<std::string, Value>>& variables) const {
  Evaluator evaluator(variables);
  DISTILL_RETURN_IF_ERROR(evaluator.Run(parsed_->body));
  return evaluator.TakeOutput();
}

bool Template::has_generation() const { return parsed_->has_generation; }

}  // namespace distill::jinja
