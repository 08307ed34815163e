#include "libdistill/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "absl/strings/ascii.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/code_point_table.h"

namespace distill {
namespace {

bool Composes(UnicodeForm form) { return form == UnicodeForm::kC || form == UnicodeForm::kKC; }

utf8proc_option_t OptionsOf(UnicodeForm form) {
  const bool compatible = form == UnicodeForm::kKC || form == UnicodeForm::kKD;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0) |
                                        (Composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE));
}

int ClassOf(char32_t c) { return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class; }

utf8proc_category_t CategoryOf(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool IsBetween(utf8proc_category_t category, utf8proc_category_t first, utf8proc_category_t last) {
  return first <= category && category <= last;
}

// What a character is made of in a form, before marks are ordered and characters composed.
struct Decomposition {
  Decomposition(UnicodeForm form, char32_t c) {
    const auto options = static_cast<utf8proc_option_t>((OptionsOf(form) & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE);
    int bounds = 0;
    count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                    static_cast<utf8proc_ssize_t>(parts.size()), options, &bounds);
  }
  char32_t operator[](utf8proc_ssize_t part) const { return static_cast<char32_t>(parts[part]); }

  std::array<utf8proc_int32_t, 32> parts;  // the longest one has 18
  utf8proc_ssize_t count;
};

std::vector<CharacterChange> Decompose(UnicodeForm form, absl::string_view text) {
  std::vector<CharacterChange> changes;
  size_t in_order = 0;  // how many do not move any more
  const auto sort_rest = [&] {
    std::stable_sort(changes.begin() + in_order, changes.end(), [](const CharacterChange& a, const CharacterChange& b) {
      return ClassOf(a.character) < ClassOf(b.character);
    });
    in_order = changes.size();
  };
  for (size_t i = 0; i < text.size();) {
    const Decomposition decomposed(form, NextCodePoint(text, &i));
    for (utf8proc_ssize_t part = 0; part < decomposed.count; ++part) {
      if (ClassOf(decomposed[part]) == 0) sort_rest();
      changes.push_back({decomposed[part], part == 0 ? 0 : 1});
    }
  }
  sort_rest();
  return changes;
}

std::optional<char32_t> Compose(char32_t first, char32_t second) {
  utf8proc_int32_t pair[3] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second), 0};
  if (utf8proc_normalize_utf32(pair, 2, OptionsOf(UnicodeForm::kC)) != 1) return std::nullopt;
  return static_cast<char32_t>(pair[0]);
}

// UAX 15's composition: each character joins the last starter unless one between them keeps it away.
std::vector<CharacterChange> Compose(const std::vector<CharacterChange>& decomposed) {
  std::vector<CharacterChange> changes, waiting;  // what follows the starter and has not joined it
  std::optional<CharacterChange> starter;
  int last_class = -1;  // of the last one waiting; -1: none
  const auto finish = [&] {
    if (starter) changes.push_back(*starter);
    changes.insert(changes.end(), waiting.begin(), waiting.end());
    waiting.clear();
    last_class = -1;
  };
  for (const CharacterChange& next : decomposed) {
    const int own_class = ClassOf(next.character);
    if (!starter) {
      if (own_class == 0) {
        starter = next;
      } else {
        changes.push_back(next);
      }
      continue;
    }
    const bool is_blocked = last_class >= own_class;
    if (const auto joined = is_blocked ? std::nullopt : Compose(starter->character, next.character)) {
      starter = CharacterChange{*joined, starter->change + next.change - 1};
    } else if (own_class == 0) {
      finish();
      starter = next;
    } else {
      waiting.push_back(next);
      last_class = own_class;
    }
  }
  finish();
  return changes;
}

std::string Mapped(UnicodeForm form, absl::string_view text) {
  utf8proc_uint8_t* normalized = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &normalized, OptionsOf(form));
  if (size < 0) return std::string(text);
  std::string result(reinterpret_cast<const char*>(normalized), static_cast<size_t>(size));
  std::free(normalized);
  return result;
}

constexpr char32_t kEndOfDecomposed = 0x30000;  // planes above have no characters that decompose or combine

uint8_t BitOf(UnicodeForm form) { return static_cast<uint8_t>(1u << static_cast<int>(form)); }

// The forms in which a code point stays as it is, whatever stands beside it: alone it is in that form, and neither it
// nor its first part is reordered, or composes with what stands before it.
uint8_t StableForms(char32_t c, const std::vector<bool>& composes) {
  if ((c >= 0xD800 && c <= 0xDFFF) || ClassOf(c) != 0) return 0;
  uint8_t forms = 0;
  for (const auto& [decomposing, composing] :
       {std::pair(UnicodeForm::kD, UnicodeForm::kC), std::pair(UnicodeForm::kKD, UnicodeForm::kKC)}) {
    const Decomposition parts(decomposing, c);
    const bool is_whole = parts.count == 1 && parts[0] == c;
    if (is_whole) forms |= BitOf(decomposing);
    if (parts.count < 1 || composes[c] || composes[parts[0]]) continue;
    std::string one;
    if (!is_whole) AppendUtf8(c, &one);
    if (is_whole || Mapped(composing, one) == one) forms |= BitOf(composing);
  }
  return forms;
}

CodePointTable StableTable() {
  std::vector<bool> composes(kEndOfDecomposed);  // with what stands before it
  for (char32_t c = 0; c < kEndOfDecomposed; ++c) {
    const Decomposition parts(UnicodeForm::kD, c);
    for (utf8proc_ssize_t i = 1; i < parts.count; ++i) composes[parts[i]] = true;
  }
  return CodePointTable([&](char32_t c) { return StableForms(c, composes); }, kEndOfDecomposed);
}

}  // namespace

bool IsSurelyInForm(UnicodeForm form, absl::string_view text) {
  size_t at = EndOfAscii(text, 0);
  if (at == text.size()) return true;
  static const auto* const kStable = new CodePointTable(StableTable());
  while (at < text.size()) {
    if ((kStable->Of(NextCodePoint(text, &at)) & BitOf(form)) == 0) return false;
  }
  return true;
}

std::string InForm(UnicodeForm form, absl::string_view text) {
  return IsSurelyInForm(form, text) ? std::string(text) : Mapped(form, text);
}

std::vector<CharacterChange> ChangesInto(UnicodeForm form, absl::string_view text) {
  std::vector<CharacterChange> decomposed = Decompose(form, text);
  return Composes(form) ? Compose(decomposed) : decomposed;
}

size_t GraphemeEnd(absl::string_view text, size_t begin) {
  utf8proc_int32_t state = 0;
  size_t end = begin;
  auto last = static_cast<utf8proc_int32_t>(NextCodePoint(text, &end));
  while (end < text.size()) {
    size_t next = end;
    const auto character = static_cast<utf8proc_int32_t>(NextCodePoint(text, &next));
    if (utf8proc_grapheme_break_stateful(last, character, &state)) break;
    last = character;
    end = next;
  }
  return end;
}

bool IsWordCharacter(char32_t c) {
  switch (CategoryOf(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      break;
  }
  // Join_Control, and the circled and squared letters of Other_Alphabetic.
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool IsLetter(char32_t c) { return IsBetween(CategoryOf(c), UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO); }
bool IsUppercaseLetter(char32_t c) {
  return CategoryOf(c) == UTF8PROC_CATEGORY_LU || CategoryOf(c) == UTF8PROC_CATEGORY_LT;
}
bool IsLowercaseLetter(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LL; }
bool IsMark(char32_t c) { return IsBetween(CategoryOf(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }
bool IsNonSpacingMark(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_MN; }
bool IsNumber(char32_t c) { return IsBetween(CategoryOf(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }
bool IsControl(char32_t c) { return IsBetween(CategoryOf(c), UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO); }

bool IsPunctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && !absl::ascii_isalnum(static_cast<unsigned char>(c));
  return IsBetween(CategoryOf(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

void AppendLower(char32_t c, std::string* text) {
  constexpr char32_t kCapitalIWithDot = 0x130, kDotAbove = 0x307;
  if (c == kCapitalIWithDot) {
    text->push_back('i');
    return AppendUtf8(kDotAbove, text);
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), text);
}

}  // namespace distill
