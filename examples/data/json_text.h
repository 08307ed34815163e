// Rows as text again.
#pragma once

#include <string>

#include "libdistill/store/json_value.h"

namespace distill {

// One line, without its end.
std::string JsonText(const JsonValue& value);

}  // namespace distill
