// Upper and lower case, as Python's strings have them.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace distill::jinja {

// Upper, lower or title case letters.
bool IsCased(char32_t code_point);
std::string ToUpper(absl::string_view text);
std::string ToLower(absl::string_view text);

}  // namespace distill::jinja
