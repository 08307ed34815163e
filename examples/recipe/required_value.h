// What a recipe says of an option that has no value. Sees no torch.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace distill {

// InvalidArgument, with where the option `name` can be given.
inline absl::Status IsMissing(const char* name) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is missing: give it in the config file or as --", name));
}
// The same of a flag, which no config file may hold.
inline absl::Status FlagIsMissing(const char* name) {
  return absl::InvalidArgumentError(absl::StrCat("--", name, " is missing: give it on the command line"));
}
// IsMissing where `value` is empty.
[[nodiscard]] inline absl::Status RequireValue(const char* name, const std::string& value) {
  return value.empty() ? IsMissing(name) : absl::OkStatus();
}

}  // namespace distill
