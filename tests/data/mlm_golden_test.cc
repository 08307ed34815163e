// Masks beside those of transformers' DataCollatorForLanguageModeling (tests/golden/mlm_golden.py): the same texts, as
// many draws.
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libdistill/data/mlm_masking.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/store/files.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"
#include "tests/text/golden_rows.h"

namespace distill {
namespace {

const std::string kGolden = GoldenFolder() + "/mlm";

struct Text {
  std::string text;
  std::vector<int32_t> ids, words, continues;
  std::vector<uint8_t> special, ever;
};

template <typename T>
std::vector<T> NumbersOf(const JsonValue& row, const char* name) {
  std::vector<T> numbers;
  for (const JsonValue& item : row.Find(name)->items) numbers.push_back(static_cast<T>(item.number));
  return numbers;
}

std::vector<Text> Texts() {
  std::vector<Text> texts;
  ForEachRow(kGolden + "/texts.jsonl", [&](const JsonValue& row) {
    texts.push_back({row.Find("text")->text, NumbersOf<int32_t>(row, "ids"), NumbersOf<int32_t>(row, "words"),
                     NumbersOf<int32_t>(row, "continues"), NumbersOf<uint8_t>(row, "special"),
                     NumbersOf<uint8_t>(row, "ever")});
  });
  REQUIRE(texts.size() == 18);
  return texts;
}

std::map<std::string, double> Draws() {
  std::map<std::string, double> draws;
  const JsonValue all = ParseJson(ReadFile(kGolden + "/draws.json").value()).value();
  for (const auto& [name, value] : all.members) draws[name] = value.number;
  return draws;
}

Tokenizer TokenizerOfBert() {
  auto tokenizer = Tokenizer::Load(kGolden);
  INFO(tokenizer.status());
  REQUIRE(tokenizer.ok());
  return *std::move(tokenizer);
}

// Whether two counts out of as many draws each are of one chance, within five standard deviations of their difference.
bool AreAlike(double a, double b, double draws) {
  const double chance = (a + b) / (2 * draws);
  return std::abs(a - b) < 5 * std::sqrt(2 * draws * chance * (1 - chance)) + 1;
}

bool IsLikely(double count, double draws, double chance) {
  return std::abs(count - draws * chance) < 5 * std::sqrt(draws * chance * (1 - chance)) + 1;
}

// Numbers of words, counted from 0 as they come; -1 stays.
std::vector<int32_t> Renumbered(const std::vector<int32_t>& words) {
  std::map<int32_t, int32_t> numbers;
  std::vector<int32_t> out;
  for (const int32_t word : words) {
    const auto next = static_cast<int32_t>(numbers.size());
    out.push_back(word == -1 ? -1 : numbers.try_emplace(word, next).first->second);
  }
  return out;
}

TEST_CASE("special tokens and words are those that transformers' collator finds") {
  const Tokenizer tokenizer = TokenizerOfBert();
  int64_t several = 0;
  for (const Text& text : Texts()) {
    INFO(text.text);
    const auto encoding = tokenizer.EncodeInput(text.text);
    REQUIRE(encoding.ok());
    REQUIRE(encoding->ids == text.ids);
    // A special token that stands in the text is one to transformers, too; what was added is so here.
    std::vector<uint8_t> special;
    for (size_t i = 0; i < text.ids.size(); ++i) special.push_back(encoding->is_special[i]);
    CHECK(special == text.special);
    const std::vector<int32_t> words = WordsOfOffsets(encoding->offsets, special);
    CHECK(Renumbered(words) == Renumbered(text.words));
    several += std::set<int32_t>(words.begin(), words.end()).size() < words.size() - 2;
  }
  CHECK(several > 8);
}

TEST_CASE("as many tokens are chosen, masked, replaced and kept as by transformers, at the same places") {
  const Tokenizer tokenizer = TokenizerOfBert();
  std::map<std::string, double> theirs = Draws();
  const auto masking = MlmMasking::Create(tokenizer, {});
  REQUIRE(masking.ok());
  const auto mask = static_cast<int32_t>(theirs["mask"]);
  double chosen = 0, masked = 0, kept = 0, random = 0;
  int64_t sample = 0;
  for (const Text& text : Texts()) {
    INFO(text.text);
    std::vector<uint8_t> ever(text.ids.size(), 0);
    for (double draw = 0; draw < theirs["draws"]; ++draw) {
      const MaskedTokens made = masking->Mask({.ids = text.ids, .is_special = text.special}, 0, ++sample).value();
      for (size_t i = 0; i < text.ids.size(); ++i) {
        if (made.labels[i] == kIgnoreLabel) {
          REQUIRE(made.ids[i] == text.ids[i]);
          continue;
        }
        REQUIRE(made.labels[i] == text.ids[i]);
        ever[i] = 1;
        ++chosen;
        ++(made.ids[i] == mask ? masked : made.ids[i] == text.ids[i] ? kept : random);
      }
    }
    CHECK(ever == text.ever);  // in 400 draws each place that can be chosen is
  }
  CHECK(IsLikely(chosen, theirs["eligible"], 0.15));
  CHECK(AreAlike(chosen, theirs["chosen"], theirs["eligible"]));
  const double of_as_many = theirs["chosen"] / chosen;  // how many were chosen differs by chance, as was checked above
  CHECK(AreAlike(masked * of_as_many, theirs["masked"], theirs["chosen"]));
  CHECK(AreAlike(kept * of_as_many, theirs["kept"], theirs["chosen"]));
  CHECK(AreAlike(random * of_as_many, theirs["random"], theirs["chosen"]));
}

TEST_CASE("whole words are transformers' words, each chosen as often, and masked as a whole") {
  std::map<std::string, double> theirs = Draws();
  const auto masking = MlmMasking::Create(TokenizerOfBert(), {.whole_word_mask = true});
  REQUIRE(masking.ok());
  double chosen_words = 0;
  int64_t sample = 0;
  for (const Text& text : Texts()) {
    INFO(text.text);
    for (double draw = 0; draw < theirs["draws"]; ++draw) {
      const MlmText with_words{.ids = text.ids, .is_special = text.special, .words = text.words};
      const MaskedTokens made = masking->Mask(with_words, 0, ++sample).value();
      std::set<int32_t> chosen;
      for (size_t i = 0; i < text.ids.size(); ++i) {
        if (made.labels[i] != kIgnoreLabel) chosen.insert(text.words[i]);
      }
      REQUIRE(chosen.count(-1) == 0);
      for (size_t i = 0; i < text.ids.size(); ++i) {
        const bool is_chosen = chosen.count(text.words[i]) > 0;
        REQUIRE(made.labels[i] == (is_chosen ? text.ids[i] : kIgnoreLabel));
        REQUIRE(made.ids[i] == (is_chosen ? static_cast<int32_t>(theirs["mask"]) : text.ids[i]));
      }
      chosen_words += static_cast<double>(chosen.size());
    }
  }
  CHECK(IsLikely(chosen_words, theirs["words"], 0.15));
  CHECK(AreAlike(chosen_words, theirs["chosen_words"], theirs["words"]));
}

TEST_CASE("without words of its own a text has those that WordPiece's marks tell") {
  const auto masking = MlmMasking::Create(TokenizerOfBert(), {.mlm_probability = 0.5, .whole_word_mask = true});
  REQUIRE(masking.ok());
  int64_t joined = 0;
  for (const Text& text : Texts()) {
    INFO(text.text);
    for (int64_t sample = 0; sample < 50; ++sample) {
      const MaskedTokens made = masking->Mask({.ids = text.ids, .is_special = text.special}, 0, sample).value();
      for (size_t i = 1; i < text.ids.size(); ++i) {
        if (text.continues[i] != 1) continue;
        ++joined;
        REQUIRE((made.labels[i] == kIgnoreLabel) == (made.labels[i - 1] == kIgnoreLabel));
      }
    }
  }
  CHECK(joined > 1000);
}

}  // namespace
}  // namespace distill
