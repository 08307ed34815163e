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

// Kinds of characters, of which a set may be asked for. Line ends are spaces, too.
enum Kind : uint8_t {
  kOther = 1,
  kMark = 2,       // \p{M}
  kUpper = 4,      // \p{Lu} and \p{Lt}
  kLower = 8,      // \p{Ll}
  kCaseless = 16,  // the other letters
  kNumber = 32,    // \p{N}
  kSpace = 64,     // \s
};
using Kinds = uint8_t;
constexpr Kinds kLetter = kUpper | kLower | kCaseless;
constexpr Kinds kNoWord = kOther | kMark;  // [^\s\p{L}\p{N}]
constexpr Kinds kUpperPart = kUpper | kCaseless | kMark, kLowerPart = kLower | kCaseless | kMark;

Kind KindOf(char32_t c) {
  if (IsWhitespace(c)) return kSpace;
  if (IsNumber(c)) return kNumber;
  if (IsMark(c)) return kMark;
  if (!IsLetter(c)) return kOther;
  return IsLowercaseLetter(c) ? kLower : IsUppercaseLetter(c) ? kUpper : kCaseless;
}

// Of every code point, in pages of 256, of which most are alike.
class KindTable {
 public:
  KindTable() {
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
  static const auto* const kinds = new KindTable();
  *end = at;
  return kinds->Of(NextCodePoint(text, end));
}

bool IsKindAt(absl::string_view text, size_t at, Kinds kinds, size_t* end) {
  return at < text.size() && (KindAt(text, at, end) & kinds) != 0;
}

// Where the characters of these kinds from `at` on end; no more than `most` of them.
size_t EndOfRun(absl::string_view text, size_t at, Kinds kinds, size_t most = std::numeric_limits<size_t>::max()) {
  for (size_t end = 0; most > 0 && IsKindAt(text, at, kinds, &end); --most) at = end;
  return at;
}

bool IsLineEnd(char c) { return c == '\r' || c == '\n'; }

}  // namespace

const std::vector<WordScanner::Rules>& WordScanner::AllRules() {
  constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();
  static const auto* const rules = new std::vector<Rules>{
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", WordRule::kGpt2, true,
       kAnyNumber},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       WordRule::kLetters, true, 1},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       WordRule::kLetters, true, 3},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
       WordRule::kLetters, true, 3},
      {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
       WordRule::kLetters, true, 3},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       WordRule::kCase, true, 3},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       WordRule::kCase, false, 1}};
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
  const bool ignores_case = rules_->words != WordRule::kGpt2;
  if (ignores_case && rest == kLongS) return begin + 3;
  for (const absl::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    if (ignores_case ? absl::StartsWithIgnoreCase(rest, ending) : absl::StartsWith(rest, ending)) {
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
  if (rules_->words != WordRule::kGpt2 && after_line_end > begin) return after_line_end;
  return end == text.size() || last == begin ? end : last;
}

// A word that begins with capitals and goes on in small letters; else one of capitals alone. Letters without case and
// marks are either. `begin` where there is none.
size_t WordScanner::EndOfCasedWord(absl::string_view text, size_t begin) const {
  size_t first = 0, next = 0;
  const Kind kind = KindAt(text, begin, &first);
  if (kind == kNumber || IsLineEnd(text[begin])) return begin;
  const size_t from = (kind & kLetter) != 0 ? begin : first;
  size_t end = from, small = 0;  // small: behind the last one that may be small
  for (; IsKindAt(text, end, kUpperPart, &next); end = next) {
    if (IsKindAt(text, end, kLowerPart, &next)) small = next;
  }
  if (IsKindAt(text, end, kLower, &next)) small = EndOfRun(text, next, kLowerPart);
  if (small == 0 && kind == kMark) small = first;  // by itself, rather than before capitals
  if (small > 0) end = small;
  if (end == from && small == 0) return begin;
  const bool may_go_on = rules_->has_contractions && end < text.size() && text[end] == '\'';
  return may_go_on ? EndOfContraction(text, end) : end;
}

size_t WordScanner::EndOfWord(absl::string_view text, size_t begin) const {
  const bool is_gpt2 = rules_->words == WordRule::kGpt2, by_case = rules_->words == WordRule::kCase;
  if (by_case) {
    if (const size_t end = EndOfCasedWord(text, begin); end > begin) return end;
  } else if (text[begin] == '\'') {
    if (const size_t end = EndOfContraction(text, begin); end > begin) return end;
  }
  size_t end = 0;
  const Kind kind = KindAt(text, begin, &end);
  const bool joins = is_gpt2 ? text[begin] == ' ' : !by_case && kind != kNumber && !IsLineEnd(text[begin]);
  size_t next = 0;
  if ((kind & kLetter) != 0 || (joins && IsKindAt(text, end, kLetter, &next))) return EndOfRun(text, end, kLetter);
  if (kind == kNumber) return EndOfRun(text, end, kNumber, rules_->digits - 1);
  if (is_gpt2 && joins && IsKindAt(text, end, kNumber, &next)) return EndOfRun(text, end, kNumber);
  if ((kind & kNoWord) != 0 || (text[begin] == ' ' && IsKindAt(text, end, kNoWord, &next))) {
    end = EndOfRun(text, end, kNoWord);
    while (!is_gpt2 && end < text.size() && (IsLineEnd(text[end]) || (by_case && text[end] == '/'))) ++end;
    return end;
  }
  return EndOfSpaces(text, begin);
}

}  // namespace distill
