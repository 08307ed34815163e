#include "libdistill/text/stop_strings.h"

#include "libdistill/core/random.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

struct Cut {
  std::string text;
  bool found;
  bool operator==(const Cut&) const = default;
};

// `text` in pieces of up to `most` bytes.
Cut CutOf(const std::vector<std::string>& strings, const std::string& text, size_t most, Random& random) {
  StopStrings stops(strings);
  Cut cut;
  for (size_t at = 0; at < text.size() && !stops.found();) {
    const size_t size = 1 + random.Below(most);
    cut.text += stops.Add(text.substr(at, size));
    at += size;
  }
  cut.text += stops.Finish();
  cut.found = stops.found();
  return cut;
}

TEST_CASE("a text ends before a stop string, wherever its pieces end") {
  struct Case {
    std::vector<std::string> strings;
    std::string text, expected;
    bool found = true;
  };
  const std::vector<Case> cases = {
      {{"\nQuestion:"}, "Oslo.\n\nQuestion: and", "Oslo.\n"},
      {{"aab"}, "aaaab", "aa"},
      {{"abcd", "bc"}, "xabcd", "xa"},  // "bc" is complete first
      {{"c", "abc", "bc"}, "xabc", "x"},
      {{"END"}, "no EN", "no EN", false},
      {{"END"}, "", "", false},
      {{}, "all of it", "all of it", false},
      {{"\xE2\x82\xAC"}, "5 \xE2\x82\xAC", "5 "},
  };
  Random random(1, 0);
  for (const Case& c : cases) {
    INFO(c.text);
    for (int i = 0; i < 20; ++i) {
      CHECK(CutOf(c.strings, c.text, 1 + random.Below(6), random) == Cut{c.expected, c.found});
    }
  }
}

TEST_CASE("drawn texts are cut alike in one piece and in many") {
  Random random(2, 0);
  const auto draw = [&](size_t most) {
    std::string text(1 + random.Below(most), 'a');
    for (char& c : text) c = static_cast<char>('a' + random.Below(2));
    return text;
  };
  int64_t found = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::vector<std::string> strings = {draw(8), draw(6)};
    const std::string text = draw(24);
    const Cut whole = CutOf(strings, text, 1, random);
    INFO(text << " before " << strings[0] << ", " << strings[1]);
    CHECK(CutOf(strings, text, 24, random) == whole);
    CHECK(CutOf(strings, text, 4, random) == whole);
    found += whole.found;
  }
  CHECK((found > 500 && found < 1900));
}

TEST_CASE("nothing is kept back that no stop string can begin with, and nothing comes after one") {
  StopStrings stops({"<end>"});
  CHECK(stops.Add("one <") == "one ");
  CHECK(stops.Add("e") == "");
  CHECK(stops.Add("lse <en") == "<else ");
  CHECK(stops.Add("d> two") == "");
  CHECK(stops.found());
  CHECK(stops.Add("three") == "");
  CHECK(stops.Finish() == "");
}

}  // namespace
}  // namespace distill
