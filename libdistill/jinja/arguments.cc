#include "libdistill/jinja/arguments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace distill::jinja {

absl::StatusOr<std::vector<const Value*>> Arguments::Bind(absl::string_view function,
                                                          std::initializer_list<const char*> names,
                                                          size_t required) const {
  if (positional.size() > names.size()) return Error(absl::StrCat(function, "() is given too many arguments"));
  std::vector<const Value*> bound(names.size(), nullptr);
  for (size_t i = 0; i < positional.size(); ++i) bound[i] = &positional[i];
  for (const auto& [name, value] : named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return Error(absl::StrCat(function, "() has no argument '", name, "'"));
    const Value*& slot = bound[found - names.begin()];
    if (slot != nullptr) return Error(absl::StrCat(function, "() is given '", name, "' twice"));
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) return Error(absl::StrCat(function, "() lacks '", *(names.begin() + i), "'"));
  }
  return bound;
}

absl::StatusOr<std::string> TextArgument(absl::string_view function, const Value* value) {
  if (value->IsString()) return *value->text();
  return Error(absl::StrCat(function, "() needs a string, not ", TypeName(*value)));
}

}  // namespace distill::jinja
