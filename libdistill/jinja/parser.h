// Template text to a syntax tree.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/jinja/ast.h"

namespace distill::jinja {

struct ParsedTemplate {
  Block body;
  bool has_generation = false;  // a {% generation %} block occurs
};

// InvalidArgument: "line 3: ..." for bad syntax and for what is not supported.
absl::StatusOr<ParsedTemplate> Parse(absl::string_view source);

}  // namespace distill::jinja
