// GPT-2's byte alphabet: every byte has one printable character, in which the tokens of tokenizer.json are spelled.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace distill {

char32_t ByteLevelCharacter(uint8_t byte);

// The bytes that `token` spells; false where one of its characters is not of the alphabet.
bool DecodeByteLevel(absl::string_view token, std::string* bytes);

}  // namespace distill
