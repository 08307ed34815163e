// Bracket expressions of Oniguruma's syntax: [a-z], [^\s\p{L}], [a-z&&[^aeiou]], [[:alpha:]]. Internal to text/.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "libdistill/text/character_set.h"
#include "libdistill/text/pattern_reader.h"

namespace distill {

struct BracketClass {
  CharacterSet members;
  bool is_opposite = false;             // [^...]: those that are no members
  std::optional<char32_t> single = {};  // the only member, where that is one character
};

// Of '[' at byte `begin`, which is read, up to its ']'. InvalidArgument: what Oniguruma refuses; the place is named.
[[nodiscard]] absl::StatusOr<BracketClass> ParseBracketClass(size_t begin, PatternReader* reader);

// Of \p and \P at byte `begin`, which is read, where a brace follows.
[[nodiscard]] absl::StatusOr<CharacterSet> ParseProperty(size_t begin, bool is_opposite, PatternReader* reader);

}  // namespace distill
