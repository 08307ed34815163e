// A text that is changed on its way to tokens, which knows for each byte what of the original it comes from.
//
// Where a change puts characters in, takes some out or joins several, their origins are those that the Python package
// `tokenizers` (0.23, NormalizedString) gives them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace distill {

// Bytes [begin, end) of the original text: always whole characters.
struct Origin {
  uint32_t begin = 0, end = 0;
};

// A part of a text, whose owner outlives it.
struct TextPart {
  absl::string_view text;
  const Origin* origins = nullptr;  // of each byte; nullptr: not kept
  bool at_start = false;            // it begins where the original text does

  TextPart Part(size_t begin, size_t end) const {
    const bool starts = origins == nullptr ? at_start && begin == 0 : begin < end && origins[begin].begin == 0;
    return {text.substr(begin, end - begin), origins == nullptr ? nullptr : origins + begin, starts};
  }
};

// A character of a changed text, and what became of the characters it stands for, in the text's order.
struct CharacterChange {
  char32_t character;
  int change;  // 1: it is new. 0: it takes the place of the next one. -n: of the next one, and n after that are gone.
};

class NormalizedText {
 public:
  // `text` stands at byte `place` of the original.
  NormalizedText(absl::string_view text, size_t place, bool keep_origins);
  explicit NormalizedText(const TextPart& part);

  const std::string& text() const { return text_; }
  TextPart whole() const { return TextPart{text_, keeps_origins_ ? origins_.data() : nullptr, at_start_}; }

  // Calls write(character, begin, end) for each of the text's characters, which stands at its bytes [begin, end). What
  // `write` has appended replaces the text.
  void Rewrite(absl::FunctionRef<void(char32_t character, size_t begin, size_t end)> write);
  // Only while it is rewritten: the bytes [begin, end) of the text as they are; or `added`, whose origin is byte
  // `at`'s.
  void Keep(size_t begin, size_t end);
  // The ASCII characters [begin, end), each as `replaced` has it; -1: it goes.
  void KeepReplaced(size_t begin, size_t end, const std::array<int8_t, 128>& replaced);
  void Append(absl::string_view added, size_t at);
  void Append(char32_t added, size_t at);
  void Append(const TextPart& added);  // with its own origins

  // The text becomes the characters of `changes`.
  void Apply(const std::vector<CharacterChange>& changes);

  // A rewriting that needs more than a character at a time: `write` reads text() and appends.
  void RewriteWhole(absl::FunctionRef<void()> write);

 private:
  std::string text_;
  std::vector<Origin> origins_;
  bool keeps_origins_;
  bool at_start_;
  std::string next_text_;
  std::vector<Origin> next_origins_;
};

}  // namespace distill
