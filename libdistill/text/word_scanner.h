// The patterns by which nearly all byte-level tokenizers cut a text into words, by hand: GPT-2's, those of Qwen2, Llama
// 3 and cl100k, which differ in how many digits are a word, and those of o200k (GPT-4o, gpt-oss) and Mistral Nemo,
// where a capital after a small letter begins a word. The words are those of Regex with the same pattern, and together
// they are the text. (libdistill/text/regex.h is the reference; a test compares them.)
#pragma once

#include <cstddef>
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
  enum class WordRule {
    kGpt2,     // letters; only a space joins a word or number, and line ends are white space as any other
    kLetters,  // letters; any character joins them
    kCase,     // the same, cut before capitals
  };
  struct Rules {
    const char* pattern;
    WordRule words;
    bool has_contractions;  // 's, 't, 're, 've, 'm, 'll and 'd, in kGpt2 in small letters, in kCase behind a word
    size_t digits;          // at most in a number
  };
  static const std::vector<Rules>& AllRules();

  explicit WordScanner(const Rules& rules) : rules_(&rules) {}
  size_t EndOfContraction(absl::string_view text, size_t begin) const;
  size_t EndOfCasedWord(absl::string_view text, size_t begin) const;
  size_t EndOfSpaces(absl::string_view text, size_t begin) const;

  const Rules* rules_;
};

}  // namespace distill
