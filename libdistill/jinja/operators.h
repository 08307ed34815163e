// The binary operators of expressions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/jinja/value.h"

namespace distill::jinja {

// Python's operators + - * / // % ** ~ on two values.
absl::StatusOr<Value> ApplyOperator(const std::string& name, const Value& left, const Value& right);

}  // namespace distill::jinja
