#include "libdistill/text/word_scanner.h"

#include <array>
#include <cstdint>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/unicode.h"

namespace distill {
namespace {

// \s, \p{L}, \p{N}, and all others. Line ends are spaces, too.
enum Kind : uint8_t { kOther, kLetter, kNumber, kSpace };

Kind KindOf(char32_t c) { return IsWhitespace(c) ? kSpace : IsLetter(c) ? kLetter : IsNumber(c) ? kNumber : kOther; }

// Of every code point, in pages of 256, of which most are alike.
class Kinds {
 public:
  Kinds() {
    for (char32_t page = 0; page < pages_.size(); ++page) {
      std::array<Kind, 256> kinds;
      for (char32_t i = 0; i < kinds.size(); ++i) kinds[i] = KindOf(page << 8 | i);
      size_t number = 0;
      while (number < different_.size() && different_[number] != kinds) ++number;
      if (number == different_.size()) different_.push_back(kinds);
      pages_[page] = static_cast<uint16_t>(number);
    }
  }

  Kind Of(char32_t c) const { return different_[pages_[c >> 8]][c & 0xFF]; }

 private:
  std::array<uint16_t, 0x1100> pages_;
  std::vector<std::array<Kind, 256>> different_;
};

// The kind of the character at `at`, which is less than text.size(); *end: where it ends.
Kind KindAt(absl::string_view text, size_t at, size_t* end) {
  static const Kinds* const kinds = new Kinds();
  *end = at;
  return kinds->Of(NextCodePoint(text, end));
}

bool IsKindAt(absl::string_view text, size_t at, Kind kind, size_t* end) {
  return at < text.size() && KindAt(text, at, end) == kind;
}

// Where the characters of this kind from `at` on end; no more than `most` of them.
size_t EndOfRun(absl::string_view text, size_t at, Kind kind, size_t most = std::numeric_limits<size_t>::max()) {
  for (size_t end = 0; most > 0 && IsKindAt(text, at, kind, &end); --most) at = end;
  return at;
}

bool IsLineEnd(char c) { return c == '\r' || c == '\n'; }

}  // namespace

const std::vector<WordScanner::Rules>& WordScanner::AllRules() {
  constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();
  static const auto* const rules = new std::vector<Rules>{
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", false, true, kAnyNumber},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       true, false, 1},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       true, false, 3},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
       true, false, 3},
      {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
       true, false, 3}};
  return *rules;
}

std::optional<WordScanner> WordScanner::For(absl::string_view pattern) {
  for (const Rules& rules : AllRules()) {
    if (rules.pattern == pattern) return WordScanner(rules);
  }
  return std::nullopt;
}

std::vector<std::string> WordScanner::Patterns() {
  std::vector<std::string> patterns;
  for (const Rules& rules : AllRules()) patterns.emplace_back(rules.pattern);
  return patterns;
}

// Behind the apostrophe at `begin`; `begin` where there is no contraction.
size_t WordScanner::EndOfContraction(absl::string_view text, size_t begin) const {
  constexpr absl::string_view kLongS = "\xC5\xBF";  // U+017F, a small s where case does not count
  const absl::string_view rest = text.substr(begin + 1, 2);
  if (rules_->ignores_case && rest == kLongS) return begin + 3;
  for (const absl::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    if (rules_->ignores_case ? absl::StartsWithIgnoreCase(rest, ending) : absl::StartsWith(rest, ending)) {
      return begin + 1 + ending.size();
    }
  }
  return begin;
}

// White space: up to its last line end, if that makes a word; else without its last character where a word follows,
// which that may join.
size_t WordScanner::EndOfSpaces(absl::string_view text, size_t begin) const {
  size_t end = begin, last = begin, after_line_end = begin;
  for (size_t next = 0; IsKindAt(text, end, kSpace, &next); end = next) {
    if (IsLineEnd(text[end])) after_line_end = next;
    last = end;
  }
  if (!rules_->is_gpt2 && after_line_end > begin) return after_line_end;
  return end == text.size() || last == begin ? end : last;
}

size_t WordScanner::EndOfWord(absl::string_view text, size_t begin) const {
  if (text[begin] == '\'') {
    if (const size_t end = EndOfContraction(text, begin); end > begin) return end;
  }
  size_t end = 0;
  const Kind kind = KindAt(text, begin, &end);
  const bool joins = rules_->is_gpt2 ? text[begin] == ' ' : kind != kNumber && !IsLineEnd(text[begin]);
  size_t next = 0;
  if (kind == kLetter || (joins && IsKindAt(text, end, kLetter, &next))) return EndOfRun(text, end, kLetter);
  if (kind == kNumber) return EndOfRun(text, end, kNumber, rules_->digits - 1);
  if (rules_->is_gpt2 && joins && IsKindAt(text, end, kNumber, &next)) return EndOfRun(text, end, kNumber);
  if (kind == kOther || (text[begin] == ' ' && IsKindAt(text, end, kOther, &next))) {
    end = EndOfRun(text, end, kOther);
    while (!rules_->is_gpt2 && end < text.size() && IsLineEnd(text[end])) ++end;
    return end;
  }
  return EndOfSpaces(text, begin);
}

}  // namespace distill
