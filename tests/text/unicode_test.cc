#include "libdistill/text/unicode.h"

#include <random>
#include <string>
#include <vector>

#include "libdistill/core/utf8.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// The text in a form, character by character.
std::string Changed(UnicodeForm form, const std::string& text) {
  std::string changed;
  for (const CharacterChange& change : ChangesInto(form, text)) AppendUtf8(change.character, &changed);
  return changed;
}

}  // namespace

TEST_CASE("a text that surely is in a form is in it, whatever stands beside each of its characters") {
  // Marks, jamo, and what composes with them or begins with one.
  const std::vector<char32_t> others = {'e',    0x301,  0x327,  0x1100, 0x1161, 0x11A8,  0xAC00, 0xE9,
                                        0x9C7,  0x9BE,  0x344,  0xF73,  0x2126, 0x110B9, 0xFF76, 0xFF9E,
                                        0x3099, 0x304B, 0x4E00, 0xF900, 0xFB01, 0x1D15E};
  std::mt19937 draw(3);
  int64_t sure = 0, all = 0;
  for (char32_t c = 0; c < 0x30200; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(others[draw() % others.size()], &text);
    AppendUtf8(c, &text);
    AppendUtf8(others[draw() % others.size()], &text);
    for (const UnicodeForm form : {UnicodeForm::kC, UnicodeForm::kD, UnicodeForm::kKC, UnicodeForm::kKD}) {
      ++all;
      if (!IsSurelyInForm(form, text)) continue;
      ++sure;
      INFO("code point " << static_cast<uint32_t>(c) << ", form " << static_cast<int>(form));
      REQUIRE(Changed(form, text) == text);
      REQUIRE(InForm(form, text) == text);
    }
  }
  CHECK(sure > all / 20);
}

TEST_CASE("prose, Chinese, Korean and Vietnamese are seen to be in form C") {
  for (const std::string text : {"", "plain", "caf\u00e9 \u2014 \u201cquoted\u201d", "\u4e2d\u6587\u3002",
                                 "\ud55c\uad6d\uc5b4", "Ti\u1ebfng Vi\u1ec7t"}) {
    CHECK(IsSurelyInForm(UnicodeForm::kC, text));
  }
  CHECK_FALSE(IsSurelyInForm(UnicodeForm::kC, "cafe\u0301"));
  CHECK_FALSE(IsSurelyInForm(UnicodeForm::kD, "caf\u00e9"));
  CHECK(InForm(UnicodeForm::kC, "cafe\u0301") == "caf\u00e9");
}

}  // namespace distill
