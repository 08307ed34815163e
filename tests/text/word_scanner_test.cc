#include "libdistill/text/word_scanner.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/regex.h"
#include "tests/support/catch.h"
#include "tests/text/golden_rows.h"

namespace distill {
namespace {

std::vector<size_t> EndsByScanner(const WordScanner& scanner, const std::string& text) {
  std::vector<size_t> ends;
  for (size_t at = 0; at < text.size(); at = ends.back()) ends.push_back(scanner.EndOfWord(text, at));
  return ends;
}

// Of the matches; -1 where they are not the whole text.
std::vector<size_t> EndsByRegex(const Regex& regex, const std::string& text) {
  std::vector<size_t> ends;
  size_t done = 0;
  const absl::Status status = regex.ForEachMatch(text, [&](size_t begin, size_t end) {
    if (begin != done) ends.push_back(static_cast<size_t>(-1));
    ends.push_back(done = end);
  });
  REQUIRE(status.ok());
  if (done != text.size()) ends.push_back(static_cast<size_t>(-1));
  return ends;
}

}  // namespace

TEST_CASE("words cut by hand are those of the pattern") {
  REQUIRE(WordScanner::Patterns().size() == 8);
  std::vector<std::string> texts;
  for (const std::string kind : {"qwen2", "gpt2", "llama3_added", "t5"}) {
    ForEachRow(kGoldenText + "/" + kind + "/cases.jsonl", [&](const JsonValue& row) {
      texts.push_back(LossyUtf8(absl::HexStringToBytes(row.Find("hex")->text)));
    });
  }
  // Each sequence of four of these, among them all that the patterns tell apart.
  const std::vector<std::string> parts = {"a",  "S", "1",      "\u00b2", " ", "\u3000", "\n",     "/",
                                          "\r", "'", "\u017f", "ll",     ".", "\u0301", "\u4e16", "\u01c5"};
  for (const std::string& a : parts) {
    for (const std::string& b : parts) {
      for (const std::string& c : parts) {
        for (const std::string& d : parts) texts.push_back(a + b + c + d);
      }
    }
  }
  // Longer ones, whose letters are skipped eight at a time; each part in turn is much more likely than the others.
  std::mt19937 draw(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    const std::string& likely = parts[i % parts.size()];
    for (int n = 0; n < 40; ++n) text += draw() % 5 == 0 ? parts[draw() % parts.size()] : n % 7 == 0 ? "a" : likely;
    texts.push_back(text);
  }
  for (const std::string& pattern : WordScanner::Patterns()) {
    const auto scanner = WordScanner::For(pattern);
    const auto regex = Regex::Compile(pattern);
    REQUIRE(scanner.has_value());
    REQUIRE(regex.ok());
    for (const std::string& text : texts) {
      INFO(pattern << " of " << absl::CHexEscape(text));
      REQUIRE(EndsByScanner(*scanner, text) == EndsByRegex(*regex, text));
    }
  }
  CHECK(texts.size() > 40000);
}

TEST_CASE("another pattern has no scanner") { CHECK_FALSE(WordScanner::For(R"(\p{L}+|\s+)").has_value()); }

}  // namespace distill
