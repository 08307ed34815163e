#include "libdistill/jinja/ast.h"

namespace distill::jinja {

const char* NameOf(Statement::Kind kind) {
  switch (kind) {
    case Statement::Kind::kText:
      return "text";
    case Statement::Kind::kOutput:
      return "{{ }}";
    case Statement::Kind::kIf:
      return "{% if %}";
    case Statement::Kind::kFor:
      return "{% for %}";
    case Statement::Kind::kSet:
    case Statement::Kind::kSetBlock:
      return "{% set %}";
    case Statement::Kind::kMacro:
      return "{% macro %}";
    case Statement::Kind::kGeneration:
      return "{% generation %}";
    case Statement::Kind::kBreak:
      return "{% break %}";
    case Statement::Kind::kContinue:
      return "{% continue %}";
  }
  return "";
}

}  // namespace distill::jinja
