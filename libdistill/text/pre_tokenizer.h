// How a normalized text is cut into words: the "pre_tokenizer" of tokenizer.json.
#pragma once

#include <deque>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/text/normalized_text.h"
#include "libdistill/text/word_scanner.h"

namespace distill {

class PreTokenizer {
 public:
  // Of the member "pre_tokenizer", which may be null: then a text is one word. InvalidArgument: a kind that is not
  // supported, or options that make no sense.
  [[nodiscard]] static absl::StatusOr<PreTokenizer> Parse(const nlohmann::json& json);

  // The parts of a text, and the storage of those that are not parts of what was given. Reused from call to call.
  struct Words {
    std::vector<TextPart> parts;
    std::vector<TextPart> next;  // Split's own
    std::deque<NormalizedText> storage;
  };
  // Any thread may call it. InvalidArgument: a pattern that cannot be matched against this text within bounds
  // (Regex::ForEachMatch).
  [[nodiscard]] absl::Status Split(const TextPart& text, Words* words) const;

  // The words are bytes, to be spelled in the alphabet of byte_level.h.
  bool is_byte_level() const { return is_byte_level_; }
  // Words depend on TextPart::at_start.
  bool asks_for_start() const { return asks_for_start_; }

  // What alone makes the words; nullptr: there is more to it, and Split is to be called.
  const WordScanner* scanner() const { return steps_.size() == 1 && steps_[0].scanner ? &*steps_[0].scanner : nullptr; }

  struct Step {
    // Adds the parts of `part` to `out`; new text goes to `storage`. nullptr: a part stays as it is.
    std::function<absl::Status(const TextPart& part, std::deque<NormalizedText>* storage, std::vector<TextPart>* out)>
        cut;
    std::optional<WordScanner> scanner = std::nullopt;  // which does just that
  };

 private:
  [[nodiscard]] absl::Status Add(const nlohmann::json& part);

  std::vector<Step> steps_;
  bool is_byte_level_ = false, asks_for_start_ = false;
};

}  // namespace distill
