// What tokenizers need of Unicode's tables.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace distill {

// Normalization form C of valid UTF-8.
std::string Nfc(absl::string_view text);

// \w of Unicode regular expressions (UTS 18): letters, marks, decimal digits, connectors, joiners.
bool IsWordCharacter(char32_t code_point);

}  // namespace distill
