// A word is found by the kinds of its characters: by a table for ASCII, eight letters at a time, and by pages of a
// table for the rest.
#include "libdistill/text/word_scanner.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/code_point_table.h"
#include "libdistill/text/unicode.h"

namespace distill {
namespace {

// \s, \p{N}, \p{M}, \p{Lu} and \p{Lt}, \p{Ll}, \p{Lm} and \p{Lo}, and all others. Line ends are spaces, too. Bits, so
// that several kinds are one test.
enum Kind : uint8_t { kOther = 1, kMark = 2, kNumber = 4, kSpace = 8, kUpper = 16, kLower = 32, kCaseless = 64 };
constexpr uint8_t kLetter = kUpper | kLower | kCaseless;
constexpr uint8_t kUpperPart = kUpper | kCaseless | kMark, kLowerPart = kLower | kCaseless | kMark;

uint8_t KindOf(char32_t c) {
  if (IsWhitespace(c)) return kSpace;
  if (IsLetter(c)) return IsLowercaseLetter(c) ? kLower : IsUppercaseLetter(c) ? kUpper : kCaseless;
  return IsNumber(c) ? kNumber : IsMark(c) ? kMark : kOther;
}

constexpr std::array<uint8_t, 128> AsciiKinds() {
  std::array<uint8_t, 128> kinds{};
  for (int c = 0; c < 128; ++c) {
    const bool is_space = c == ' ' || (c >= '\t' && c <= '\r');
    kinds[c] = is_space                 ? kSpace
               : c >= '0' && c <= '9'   ? kNumber
               : c >= 'A' && c <= 'Z'   ? kUpper
               : (c >= 'a' && c <= 'z') ? kLower
                                        : kOther;
  }
  return kinds;
}
constexpr std::array<uint8_t, 128> kAsciiKinds = AsciiKinds();

bool IsAscii(char c) { return static_cast<uint8_t>(c) < 0x80; }
bool IsLineEnd(char c) { return c == '\r' || c == '\n'; }

uint8_t KindOfLong(const char* at, const char* end, const char** next) {
  static const auto* const kKinds = new CodePointTable(KindOf);
  const absl::string_view rest(at, static_cast<size_t>(end - at));
  size_t size = 0;
  const char32_t c = NextCodePoint(rest, &size);
  *next = at + size;
  return kKinds->Of(c);
}

// The kind of the character at `at`, which is before `end`; *next: where it ends.
inline uint8_t KindAt(const char* at, const char* end, const char** next) {
  if (!IsAscii(*at)) return KindOfLong(at, end, next);
  *next = at + 1;
  return kAsciiKinds[static_cast<uint8_t>(*at)];
}

constexpr uint64_t Repeated(uint8_t byte) { return 0x0101010101010101u * byte; }

// The highest bit of each byte that is not between these ASCII characters.
constexpr uint64_t Outside(uint64_t bytes, uint8_t first, uint8_t last) {
  const uint64_t low = bytes & Repeated(0x7F);
  const uint64_t from_first = low + Repeated(static_cast<uint8_t>(0x80 - first));
  const uint64_t behind_last = low + Repeated(static_cast<uint8_t>(0x7F - last));
  return ~(from_first & ~behind_last & ~bytes) & Repeated(0x80);
}

// Behind the letters of ASCII from `at` on, at least while eight bytes are left.
template <bool kSmallOnly>
inline const char* SkipLetters(const char* at, const char* end) {
  while (end - at >= 8) {
    uint64_t bytes;
    std::memcpy(&bytes, at, sizeof(bytes));
    const uint64_t outside = Outside(kSmallOnly ? bytes : bytes | Repeated(0x20), 'a', 'z');
    if (outside != 0) return at + (std::countr_zero(outside) >> 3);
    at += 8;
  }
  return at;
}

// Where the characters of these kinds from `at` on end.
inline const char* EndOfRun(const char* at, const char* end, uint8_t kinds) {
  for (const char* next = nullptr; at < end && (KindAt(at, end, &next) & kinds) != 0;) at = next;
  return at;
}

inline const char* EndOfLetters(const char* at, const char* end, uint8_t kinds) {
  for (;;) {
    at = (kinds & kUpper) != 0 ? SkipLetters<false>(at, end) : SkipLetters<true>(at, end);
    const char* next = nullptr;
    if (at == end || (KindAt(at, end, &next) & kinds) == 0) return at;
    at = next;
  }
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "SkipLetters counts bytes from the lowest one");

// One word of a text.
class WordScanner::Scan {
 public:
  Scan(const Rules& rules, absl::string_view text, size_t begin)
      : rules_(rules), begin_(text.data() + begin), end_(text.data() + text.size()) {}

  const char* EndOfWord() const {
    if (*begin_ == '\'' && rules_.has_contractions && rules_.shape != Shape::kCased) {
      if (const char* end = EndOfContraction(begin_); end > begin_) return end;
    }
    const char* second = nullptr;
    const uint8_t kind = KindAt(begin_, end_, &second);
    if (const char* end = EndOfLetterWord(kind, second); end != nullptr) return end;
    const bool is_gpt2 = rules_.shape == Shape::kGpt2;
    if (kind == kNumber) return EndOfNumber(second, rules_.digits - 1);
    if (is_gpt2 && *begin_ == ' ' && IsAt(second, kNumber)) return EndOfNumber(second, rules_.digits);
    constexpr uint8_t kOthers = kOther | kMark;  // marks that are letters were some
    if ((kind & kOthers) != 0) return EndOfOthers(second);
    if (*begin_ == ' ' && IsAt(second, rules_.marks_are_letters ? uint8_t{kOther} : kOthers))
      return EndOfOthers(second);
    return EndOfSpaces();
  }

 private:
  bool IsAt(const char* at, uint8_t kinds) const {
    const char* next = nullptr;
    return at < end_ && (KindAt(at, end_, &next) & kinds) != 0;
  }

  // nullptr: it does not begin with letters, nor with what may stand before them.
  const char* EndOfLetterWord(uint8_t kind, const char* second) const {
    if (rules_.shape == Shape::kCased) return EndOfCasedWord(kind, second);
    const uint8_t letters = rules_.marks_are_letters ? kLetter | kMark : kLetter;
    if ((kind & letters) != 0) return EndOfLetters(second, end_, letters);
    const bool joins = rules_.shape == Shape::kGpt2 ? *begin_ == ' ' : kind != kNumber && !IsLineEnd(*begin_);
    return joins && IsAt(second, letters) ? EndOfLetters(second, end_, letters) : nullptr;
  }

  // J?U*L+ or else J?U+L*: J may stand before a word, U are capitals, L small letters, and letters without case and
  // marks are both. A mark is J, too.
  const char* EndOfCasedWord(uint8_t kind, const char* second) const {
    const bool joins = (kind & (kLetter | kNumber)) == 0 && !IsLineEnd(*begin_);
    const char* end = nullptr;
    const char* capitals_end = nullptr;
    if (joins) end = EndOfCapitalsAndSmall(second, &capitals_end);
    if (end == nullptr && (kind & (kLetter | kMark)) != 0) {
      const char* own_end = nullptr;
      end = EndOfCapitalsAndSmall(begin_, &own_end);
      if (capitals_end == nullptr) capitals_end = own_end;
    }
    if (end == nullptr) end = capitals_end;
    if (end == nullptr || !rules_.has_contractions || end == end_ || *end != '\'') return end;
    return EndOfContraction(end);
  }

  // Of U*L+; nullptr: nothing here is such. *capitals_end: of U+, nullptr where there are none.
  const char* EndOfCapitalsAndSmall(const char* begin, const char** capitals_end) const {
    const char* at = begin;
    const char* behind_both = nullptr;  // the last one that is capital and small gives way where no small one follows
    for (const char* next = nullptr; at < end_; at = next) {
      const uint8_t kind = KindAt(at, end_, &next);
      if ((kind & kUpperPart) == 0) {
        if (kind == kLower) return EndOfLetters(next, end_, kLowerPart);
        break;
      }
      if ((kind & kLowerPart) != 0) behind_both = next;
    }
    *capitals_end = at > begin ? at : nullptr;
    return behind_both;
  }

  // Behind the apostrophe at `begin`; `begin` where there is no contraction.
  const char* EndOfContraction(const char* begin) const {
    constexpr absl::string_view kLongS = "\xC5\xBF";  // U+017F, a small s where case does not count
    const absl::string_view rest = absl::string_view(begin, static_cast<size_t>(end_ - begin)).substr(1, 2);
    if (rules_.ignores_case && rest == kLongS) return begin + 3;
    for (const absl::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      if (rules_.ignores_case ? absl::StartsWithIgnoreCase(rest, ending) : absl::StartsWith(rest, ending)) {
        return begin + 1 + ending.size();
      }
    }
    return begin;
  }

  const char* EndOfNumber(const char* at, size_t most) const {
    for (const char* next = nullptr; most > 0 && at < end_ && KindAt(at, end_, &next) == kNumber; --most) at = next;
    return at;
  }

  const char* EndOfOthers(const char* at) const {
    at = EndOfRun(at, end_, rules_.marks_are_letters ? uint8_t{kOther} : uint8_t{kOther | kMark});
    if (rules_.shape == Shape::kGpt2) return at;
    while (at < end_ && (IsLineEnd(*at) || (rules_.takes_slashes && *at == '/'))) ++at;
    return at;
  }

  // White space: up to its last line end, if that makes a word; else without its last character where a word follows,
  // which that may join.
  const char* EndOfSpaces() const {
    const char *end = begin_, *last = begin_, *after_line_end = begin_;
    for (const char* next = nullptr; end < end_ && KindAt(end, end_, &next) == kSpace; end = next) {
      if (IsLineEnd(*end)) after_line_end = next;
      last = end;
    }
    if (rules_.shape != Shape::kGpt2 && after_line_end > begin_) return after_line_end;
    return end == end_ || last == begin_ ? end : last;
  }

  const Rules& rules_;
  const char* const begin_;
  const char* const end_;
};

const std::vector<WordScanner::Rules>& WordScanner::AllRules() {
  constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();
  constexpr bool kIgnoresCase = true, kContracts = true;
  static const auto* const rules = new std::vector<Rules>{
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Shape::kGpt2, kAnyNumber, false,
       kContracts, false, false},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       Shape::kPlain, 1, kIgnoresCase, kContracts, false, false},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       Shape::kPlain, 1, kIgnoresCase, kContracts, true, false},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       Shape::kPlain, 3, kIgnoresCase, kContracts, false, false},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
       Shape::kPlain, 3, kIgnoresCase, kContracts, false, false},
      {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
       Shape::kPlain, 3, kIgnoresCase, kContracts, false, false},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       Shape::kCased, 3, kIgnoresCase, kContracts, false, true},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       Shape::kCased, 1, false, false, false, true}};
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

size_t WordScanner::EndOfWord(absl::string_view text, size_t begin) const {
  return static_cast<size_t>(Scan(*rules_, text, begin).EndOfWord() - text.data());
}

}  // namespace distill
