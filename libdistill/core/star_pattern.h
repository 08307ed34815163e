// Names by patterns.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace distill {

// Whether the pattern is the text, where each "*" may be any text. matches_one(pattern, at, letter): whether what
// begins at pattern[at], which is no "*", may be the letter; it moves `at` behind that. Linear in the text for each
// letter of the pattern at most: where letters do not match, the last "*" takes one more, since of earlier ones nothing
// is to be had.
template <typename MatchesOne>
bool MatchesStars(absl::string_view pattern, absl::string_view text, const MatchesOne& matches_one) {
  size_t p = 0, t = 0, star = absl::string_view::npos, taken = 0;
  while (t < text.size()) {
    size_t next = p;
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      taken = t;
    } else if (p < pattern.size() && matches_one(pattern, next, text[t])) {
      p = next;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == absl::string_view::npos;
}

}  // namespace distill
