#include "libdistill/core/utf8.h"

#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("each maximal part that is no UTF-8 becomes one replacement character") {
  const struct {
    std::string bytes, mended;
  } cases[] = {
      {"", ""},
      {"a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82", "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82"},
      {"a\xE2\x82", "a\xEF\xBF\xBD"},                            // cut
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // overlong
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // half of a pair
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
  };
  for (const auto& [bytes, mended] : cases) {
    CHECK(IsValidUtf8(bytes) == (bytes == mended));
    CHECK(LossyUtf8(bytes) == mended);
    CHECK(IsValidUtf8(mended));
  }
}

TEST_CASE("code points come back from the text that they were written to") {
  std::string text;
  const std::u32string points = {0, 'a', 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF};
  for (const char32_t point : points) AppendUtf8(point, &text);
  REQUIRE(IsValidUtf8(text));
  CHECK(CountCodePoints(text) == points.size());
  CHECK(CodePoints(text).size() == points.size());
  size_t position = 0;
  for (const char32_t point : points) CHECK(NextCodePoint(text, &position) == point);
  CHECK(position == text.size());
}

}  // namespace
}  // namespace distill
