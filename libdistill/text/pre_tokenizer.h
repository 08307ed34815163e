// What happens to text before BPE: it is cut into words by one or more steps, in order.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/text/regex.h"

namespace distill {

struct PreTokenizerStep {
  std::string pattern;            // empty: nothing is cut
  bool keep_matches = true;       // matches, and what lies between them, become pieces of their own ...
  bool keep_rest = true;          // ... unless one of the two is removed
  bool add_prefix_space = false;  // before cutting, to a piece that does not start with a space
};

class PreTokenizer {
 public:
  [[nodiscard]] static absl::StatusOr<PreTokenizer> Create(const std::vector<PreTokenizerStep>& steps);

  // Words out of `text`, and the storage of those that are not parts of `text`. Reused from call to call.
  struct Words {
    std::vector<absl::string_view> views;
    std::deque<std::string> storage;
  };
  // InvalidArgument: a pattern that cannot be matched against this text within bounds (Regex::ForEachMatch).
  [[nodiscard]] absl::Status Split(absl::string_view text, Words* words) const;

 private:
  struct Step {
    PreTokenizerStep options;
    std::optional<Regex> regex;
  };
  std::vector<Step> steps_;
};

}  // namespace distill
