// What tokenizers need of Unicode's tables: those of utf8proc, the version of Unicode that the machine's library has.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libdistill/text/normalized_text.h"

namespace distill {

enum class UnicodeForm { kC, kD, kKC, kKD };

// Valid UTF-8 in a normalization form (UAX 15).
std::string InForm(UnicodeForm form, absl::string_view text);

// Whether a text certainly is in this form. False also where that takes more than a look at each code point.
bool IsSurelyInForm(UnicodeForm form, absl::string_view text);

// What InForm does as changes.
std::vector<CharacterChange> ChangesInto(UnicodeForm form, absl::string_view text);

// Where the extended grapheme cluster (UAX 29) that begins at byte `begin` ends.
size_t GraphemeEnd(absl::string_view text, size_t begin);

// \w of Unicode regular expressions (UTS 18): letters, marks, decimal digits, connectors, joiners.
bool IsWordCharacter(char32_t code_point);
bool IsLetter(char32_t code_point);           // categories Lu, Ll, Lt, Lm, Lo
bool IsUppercaseLetter(char32_t code_point);  // categories Lu, Lt
bool IsLowercaseLetter(char32_t code_point);  // category Ll
bool IsMark(char32_t code_point);             // categories Mn, Mc, Me
bool IsNonSpacingMark(char32_t code_point);   // category Mn
bool IsNumber(char32_t code_point);           // categories Nd, Nl, No
bool IsPunctuation(char32_t code_point);      // ASCII's punctuation and symbols, and the categories P*
bool IsControl(char32_t code_point);          // categories Cc, Cf, Co, Cs

// In lower case (SpecialCasing.txt without its conditions: U+0130 becomes two).
void AppendLower(char32_t code_point, std::string* text);

}  // namespace distill
