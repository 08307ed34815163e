// The patterns by which nearly all byte-level tokenizers cut a text into words, by hand: GPT-2's, those of Qwen2,
// Llama 3 and cl100k, which differ in how many digits are a word, and o200k's and Mistral's, which begin words at
// capitals. The words are those of Regex with the same pattern, and together they are the text.
// (libdistill/text/regex.h is the reference; a test compares them.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libdistill/text/normalized_text.h"

namespace distill {

class WordScanner {
 public:
  // nullopt: it is none of these patterns.
  static std::optional<WordScanner> For(absl::string_view pattern);
  // The patterns, for tests.
  static std::vector<std::string> Patterns();

  // Where the word that begins at byte `begin` of `text`, valid UTF-8, ends. Any thread may call it.
  size_t EndOfWord(absl::string_view text, size_t begin) const;

  void Append(const TextPart& part, std::vector<TextPart>* words) const {
    for (size_t begin = 0, end = 0; begin < part.text.size(); begin = end) {
      end = EndOfWord(part.text, begin);
      words->push_back(part.Part(begin, end));
    }
  }

 private:
  enum class Shape : uint8_t {
    kGpt2,   // only a space joins a word or number, and line ends are white space as any other
    kPlain,  // what is neither letter, number nor line end joins a word
    kCased,  // the same, but a word is capitals and then small letters
  };
  struct Rules {
    const char* pattern;
    Shape shape;
    size_t digits;           // at most in a number
    bool ignores_case;       // of 's, 't, 're, 've, 'm, 'll and 'd
    bool has_contractions;   // with kCased behind a word, else words of their own
    bool marks_are_letters;  // of words, not of what is neither letter nor number
    bool takes_slashes;      // behind punctuation, as line ends
  };
  class Scan;
  static const std::vector<Rules>& AllRules();

  explicit WordScanner(const Rules& rules) : rules_(&rules) {}

  const Rules* rules_;
};

}  // namespace distill
