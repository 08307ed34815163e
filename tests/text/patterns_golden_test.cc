// Patterns against `tokenizers`; tests/golden/text_golden_patterns.py wrote the cases into the build folder.
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "libdistill/text/regex.h"
#include "tests/support/catch.h"
#include "tests/text/golden_rows.h"

namespace distill {
namespace {

std::vector<std::string> Texts(const JsonValue& list) {
  std::vector<std::string> texts;
  for (const JsonValue& item : list.items) texts.push_back(item.text);
  return texts;
}

// What it splits a text into, and the text where each match is replaced, of all texts.
void RequireSame(const Regex& regex, const std::vector<std::string>& texts, const JsonValue& row, int64_t* given_up) {
  const std::vector<std::string> replaced = Texts(*row.Find("replaced"));
  for (size_t i = 0; i < texts.size(); ++i) {
    std::vector<std::string> parts;
    std::string result;
    size_t done = 0;
    const auto add = [&](size_t begin, size_t end) {
      if (begin < end) parts.push_back(texts[i].substr(begin, end - begin));
    };
    const absl::Status status = regex.ForEachMatch(texts[i], [&](size_t begin, size_t end) {
      add(done, begin);
      add(begin, end);
      result += texts[i].substr(done, begin - done) + "\u2581";
      done = end;
    });
    add(done, texts[i].size());
    INFO(absl::CHexEscape(texts[i]) << " " << status);
    if (!status.ok()) {  // nested counts can take either engine for ever
      CHECK(absl::StrContains(status.message(), "match limit exceeded"));
      ++*given_up;
      continue;
    }
    CHECK(parts == Texts(row.Find("parts")->items[i]));
    CHECK(result + texts[i].substr(done) == replaced[i]);
  }
}

}  // namespace

TEST_CASE("patterns match what they match in tokenizers, and what is wrong there or cannot be said is an error") {
  std::vector<std::string> texts;
  int64_t same = 0, wrong = 0, refused = 0, given_up = 0;
  ForEachRow(kGoldenText + "/patterns.jsonl", [&](const JsonValue& row) {
    if (row.Find("texts") != nullptr) {
      texts = Texts(*row.Find("texts"));
      return;
    }
    const std::string pattern = row.Find("pattern")->text;
    const auto regex = Regex::Compile(pattern);
    INFO(absl::CHexEscape(pattern) << " " << regex.status());
    if (row.Find("error") != nullptr) {
      ++wrong;
      CHECK_FALSE(regex.ok());
    } else if (regex.ok()) {
      ++same;
      RequireSame(*regex, texts, row, &given_up);
    } else {
      ++refused;
      CHECK(absl::StrContains(regex.status().message(), "of the pattern"));
    }
  });
  CHECK(same > 1800);
  CHECK(wrong > 80);
  CHECK(refused < 60);
  CHECK(given_up < 5);
}

}  // namespace distill
