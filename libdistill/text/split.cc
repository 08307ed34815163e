#include "libdistill/text/split.h"

#include "absl/container/flat_hash_map.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/json_fields.h"

namespace distill {

absl::StatusOr<SplitBehavior> SplitBehaviorOf(const std::string& name) {
  static const auto* const kBehaviors =
      new absl::flat_hash_map<std::string, SplitBehavior>{{"Removed", SplitBehavior::kRemoved},
                                                          {"Isolated", SplitBehavior::kIsolated},
                                                          {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
                                                          {"MergedWithNext", SplitBehavior::kMergedWithNext},
                                                          {"Contiguous", SplitBehavior::kContiguous}};
  const auto found = kBehaviors->find(name);
  if (found != kBehaviors->end()) return found->second;
  return Unsupported("pre_tokenizer behavior", name,
                     "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

void Splitter::Take(size_t begin, size_t end, bool is_match) {
  bool joins = false;
  switch (behavior_) {
    case SplitBehavior::kRemoved:
      if (is_match) return;
      break;
    case SplitBehavior::kIsolated:
      break;
    case SplitBehavior::kMergedWithPrevious:
      joins = is_match && !previous_;
      break;
    case SplitBehavior::kMergedWithNext:
      joins = !is_match && previous_;
      break;
    case SplitBehavior::kContiguous:
      joins = is_match == previous_;
      break;
  }
  previous_ = is_match;
  if (!joins) {
    Emit();
    begin_ = begin;
  }
  end_ = end;
}

void Splitter::Finish() {
  if (done_ < text_.text.size()) Take(done_, text_.text.size(), invert_);
  Emit();
}

void Splitter::MatchCharacters(absl::FunctionRef<bool(char32_t)> matches) {
  for (size_t i = 0; i < text_.text.size();) {
    const size_t begin = i;
    if (matches(NextCodePoint(text_.text, &i))) Match(begin, i);
  }
  Finish();
}

}  // namespace distill
