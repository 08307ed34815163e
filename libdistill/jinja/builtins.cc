#include "libdistill/jinja/builtins.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace distill::jinja {

absl::StatusOr<Value> Builtin::Call(const Value& self, const Arguments& arguments) const {
  if (parameters.size() == 1 && parameters[0] == absl::string_view("...")) return run(self, {arguments, {}});
  const auto& [positional, named] = arguments;
  if (positional.size() > parameters.size()) return Error(absl::StrCat(name, "() is given too many arguments"));
  std::vector<const Value*> bound(parameters.size(), nullptr);
  for (size_t i = 0; i < positional.size(); ++i) bound[i] = &positional[i];
  for (const auto& [parameter, value] : named) {
    const auto found = absl::c_find(parameters, parameter);
    if (found == parameters.end()) return Error(absl::StrCat(name, "() has no argument '", parameter, "'"));
    const Value*& slot = bound[found - parameters.begin()];
    if (slot != nullptr) return Error(absl::StrCat(name, "() is given '", parameter, "' twice"));
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) return Error(absl::StrCat(name, "() lacks '", parameters[i], "'"));
  }
  return run(self, {arguments, std::move(bound)});
}

absl::StatusOr<std::string> TextArgument(absl::string_view function, const Value* value) {
  if (value->IsString()) return *value->text();
  return Error(absl::StrCat(function, "() needs a string, not ", TypeName(*value)));
}

}  // namespace distill::jinja
