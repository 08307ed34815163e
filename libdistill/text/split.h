// Cutting a text where something matches. Internal to text/.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/text/normalized_text.h"

namespace distill {

// What becomes of a match. Of "a-b--c" cut at "-":
enum class SplitBehavior {
  kRemoved,             // a b c
  kIsolated,            // a - b - - c
  kMergedWithPrevious,  // a- b- - c
  kMergedWithNext,      // a -b - -c
  kContiguous,          // a - b -- c
};

// By its name in tokenizer.json, "MergedWithNext". InvalidArgument: any other.
[[nodiscard]] absl::StatusOr<SplitBehavior> SplitBehaviorOf(const std::string& name);

// Takes matches [begin, end) of a text in order.
class Splitter {
 public:
  // `invert`: what matches and what does not change places.
  Splitter(const TextPart& text, SplitBehavior behavior, bool invert, std::vector<TextPart>* out)
      : text_(text), behavior_(behavior), invert_(invert), out_(out) {}

  void Match(size_t begin, size_t end) {
    if (begin > done_) Take(done_, begin, invert_);
    Take(begin, end, !invert_);
    done_ = end;
  }
  // After the last match.
  void Finish();

  // Every character that `matches` by itself, up to the end.
  void MatchCharacters(absl::FunctionRef<bool(char32_t)> matches);

 private:
  void Take(size_t begin, size_t end, bool is_match);
  void Emit() {
    if (begin_ < end_) out_->push_back(text_.Part(begin_, end_));
  }

  const TextPart text_;
  const SplitBehavior behavior_;
  const bool invert_;
  std::vector<TextPart>* const out_;
  size_t done_ = 0;
  size_t begin_ = 0, end_ = 0;  // a part that may still grow
  bool previous_ = false;       // was a match
};

}  // namespace distill
