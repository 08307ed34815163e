// Patterns of Oniguruma's syntax (ONIG_SYNTAX_ONIGURUMA, UTF-8: what the Python package `tokenizers` compiles the
// patterns of tokenizer.json with) in that of PCRE2. Internal to text/.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace distill {

// Under PCRE2_UTF, PCRE2_UCP, PCRE2_MULTILINE and lines that end with \n, the result has the matches that Oniguruma
// finds for `pattern`, valid UTF-8. InvalidArgument: Oniguruma refuses it, too, or PCRE2 cannot say the same; the
// construct and its place are named.
[[nodiscard]] absl::StatusOr<std::string> TranslatePattern(const std::string& pattern);

}  // namespace distill
