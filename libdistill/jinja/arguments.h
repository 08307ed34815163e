// What a function, method or filter of the template language is called with.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/jinja/value.h"

namespace distill::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The arguments in the order of `names`, nullptr where one is not given. InvalidArgument: too many, an unknown name,
  // one given twice, fewer than `required`.
  absl::StatusOr<std::vector<const Value*>> Bind(absl::string_view function, std::initializer_list<const char*> names,
                                                 size_t required = 0) const;
};

// The text of an argument of `function`, or InvalidArgument for what is no text.
absl::StatusOr<std::string> TextArgument(absl::string_view function, const Value* value);

}  // namespace distill::jinja
