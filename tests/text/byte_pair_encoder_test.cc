#include "libdistill/text/byte_pair_encoder.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"
#include "libdistill/text/exact_merges.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using Rules = std::vector<std::pair<std::string, std::string>>;

std::vector<int32_t> IdsOf(const TokenModel& model, const std::string& word) {
  std::vector<WordToken> tokens;
  model.AppendTokens(word, &tokens);
  std::vector<int32_t> ids;
  for (const WordToken& token : tokens) ids.push_back(token.id);
  return ids;
}

// As it is said: of all pairs the one with the lowest rank, the leftmost of equals first. Words are letters of `vocab`.
std::vector<int32_t> MergedPlainly(const Vocabulary& vocab, const Rules& rules, const std::string& word) {
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  for (size_t rank = 0; rank < rules.size(); ++rank) ranks[rules[rank]] = rank;  // of equal ones the last
  std::vector<std::string> parts;
  for (const char letter : word) parts.emplace_back(1, letter);
  for (;;) {
    size_t best = rules.size(), at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find({parts[i], parts[i + 1]});
      if (found == ranks.end() || found->second >= best) continue;
      best = found->second;
      at = i;
    }
    if (best == rules.size()) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + at + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& part : parts) ids.push_back(vocab.at(part));
  return ids;
}

// Three letters, and tokens that rules make of them. Rules come in the order of training, where each token is made of
// earlier ones; with every other way to make it beside, as the files of Llama 3 have them; or in any order.
enum class Order { kTrained, kAllWays, kAny };

Rules RandomRules(Order order, Vocabulary* vocab, std::mt19937* draw) {
  std::vector<std::string> tokens = {"a", "b", "c"};
  *vocab = {{"a", 2}, {"b", 0}, {"c", 1}};
  Rules rules;
  const int most = 3 + static_cast<int>((*draw)() % 25);
  for (int i = 0; i < most; ++i) {
    const std::string left = tokens[(*draw)() % tokens.size()], right = tokens[(*draw)() % tokens.size()];
    if (left.size() + right.size() > 12) continue;
    if (vocab->emplace(left + right, static_cast<int32_t>(vocab->size())).second) {
      tokens.push_back(left + right);
      if (order != Order::kAllWays) rules.emplace_back(left, right);
    } else if (order == Order::kAny) {
      rules.emplace_back(left, right);
    }
  }
  for (const std::string& token : tokens) {
    for (size_t cut = 1; order == Order::kAllWays && cut < token.size(); ++cut) {
      const std::string left = token.substr(0, cut), right = token.substr(cut);
      if (vocab->count(left) > 0 && vocab->count(right) > 0) rules.emplace_back(left, right);
    }
  }
  if (order == Order::kAny) std::shuffle(rules.begin(), rules.end(), *draw);
  return rules;
}

std::vector<std::string> RandomWords(std::mt19937* draw) {
  std::vector<std::string> words;
  for (size_t begin = 0, size = 1; size <= 5; ++size) {  // all of up to five letters
    const size_t end = words.size();
    for (size_t i = begin; i < std::max(end, size_t{1}); ++i) {
      const std::string start = words.empty() ? "" : words[i];
      for (const char letter : {'a', 'b', 'c'}) words.push_back(start + letter);
      if (start.empty()) break;
    }
    begin = end;
  }
  for (int i = 0; i < 60; ++i) {
    std::string word;
    const int letters = 1 + static_cast<int>((*draw)() % 3);
    for (size_t size = (*draw)() % 120; word.size() <= size;) word.push_back("abc"[(*draw)() % letters]);
    words.push_back(word);
  }
  return words;
}

// "ab" as bytes of ByteLevel, or as characters.
std::shared_ptr<const TokenModel> Encoder(const Vocabulary& vocab, const Rules& rules, bool is_byte_level) {
  Vocabulary all = vocab;
  for (int byte = 0; is_byte_level && byte < 256; ++byte) {
    std::string token;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(byte)), &token);
    all.emplace(token, static_cast<int32_t>(all.size()));
  }
  BpeOptions options;
  options.merges = rules;
  options.is_byte_level = is_byte_level;
  all.emplace("?", static_cast<int32_t>(all.size()));
  if (!is_byte_level) options.unk_token = "?";
  return MakeBytePairEncoder(all, options).value();
}

}  // namespace

TEST_CASE("merging from left to right gives what merging by rank gives, whatever the rules and their order") {
  std::mt19937 draw(5);
  int64_t compared = 0;
  for (const Order order : {Order::kTrained, Order::kAllWays, Order::kAny}) {
    for (int round = 0; round < 150; ++round) {
      Vocabulary vocab;
      const Rules rules = RandomRules(order, &vocab, &draw);
      const auto of_bytes = Encoder(vocab, rules, true), of_characters = Encoder(vocab, rules, false);
      for (const std::string& word : RandomWords(&draw)) {
        const std::vector<int32_t> expected = MergedPlainly(vocab, rules, word);
        INFO(word << ", round " << round << " of order " << static_cast<int>(order));
        REQUIRE(IdsOf(*of_bytes, word) == expected);
        REQUIRE(IdsOf(*of_characters, word) == expected);
        compared += 2;
      }
    }
  }
  CHECK(compared > 100000);
}

TEST_CASE("rules that make a token before its parts are left to the heap, and others are not") {
  const ExactMerges::Symbols letters = {{"a", 0}, {"b", 1}, {"c", 2}};
  const ExactMerges::Rule ab = {0, 1, 3}, abc = {3, 2, 4}, bc = {1, 2, 5}, a_bc = {0, 5, 4};
  CHECK(ExactMerges::Of(letters, {ab, abc}).has_value());
  CHECK_FALSE(ExactMerges::Of(letters, {abc, ab}).has_value());
  const auto exact = ExactMerges::Of(letters, {ab, a_bc, abc, bc});  // a_bc is early, but "abc" never is a, bc
  REQUIRE(exact.has_value());
  CHECK(exact->Makes(4));
  CHECK_FALSE(exact->Makes(6));
  const auto without = ExactMerges::Of(letters, {ab, bc, a_bc});  // ab comes first, and nothing takes it on
  REQUIRE(without.has_value());
  CHECK_FALSE(without->Makes(4));
}

TEST_CASE("a word that is a token is taken whole on demand, though merging does not make it") {
  const Vocabulary vocab = {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}, {"abc", 5}, {"?", 6}};
  BpeOptions options;
  options.merges = {{"a", "b"}, {"b", "c"}, {"a", "bc"}};
  options.unk_token = "?";
  CHECK(IdsOf(*MakeBytePairEncoder(vocab, options).value(), "abc") == std::vector<int32_t>{3, 2});
  options.ignore_merges = true;
  CHECK(IdsOf(*MakeBytePairEncoder(vocab, options).value(), "abc") == std::vector<int32_t>{5});
  CHECK(IdsOf(*MakeBytePairEncoder(vocab, options).value(), "abcabc") == std::vector<int32_t>{3, 2, 3, 2});
  CHECK(IdsOf(*MakeBytePairEncoder(vocab, options).value(), "abxxbc") == std::vector<int32_t>{3, 6, 6, 4});
}

TEST_CASE("a word is known again wherever it stands") {
  Vocabulary vocab;
  std::mt19937 draw(7);
  const Rules rules = RandomRules(Order::kTrained, &vocab, &draw);
  const auto model = Encoder(vocab, rules, true);
  const auto scanner = WordScanner::For(WordScanner::Patterns()[0]);
  REQUIRE(scanner.has_value());
  std::vector<std::string> words;
  for (size_t size = 1; size <= 70; ++size) {
    for (int i = 0; i < 3; ++i) {
      std::string word = " ";
      while (word.size() < size) word.push_back("abc"[draw() % 3]);
      words.push_back(word);
      words.push_back(word + '\0');
    }
  }
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    std::vector<int32_t> expected;
    for (int i = 0; i < 4; ++i) {
      const std::string& word = words[draw() % words.size()];
      text += word;
    }
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      end = scanner->EndOfWord(text, begin);
      for (const int32_t id : IdsOf(*model, text.substr(begin, end - begin))) expected.push_back(id);
    }
    IdBuffer ids;
    model->AppendIds(text, *scanner, &ids);
    REQUIRE(ids.Copy() == expected);
  }
}

TEST_CASE("a text that is one word has the ids of its parts, unknown characters and marks within tokens included") {
  const std::string mark = "\u2581";
  Vocabulary vocab = {{"?", 0},        {"a", 1},  {"b", 2},         {mark, 3},
                      {mark + "a", 4}, {"ab", 5}, {mark + "ab", 6}, {"b" + mark, 7}};
  BpeOptions options;
  options.merges = {{"a", "b"}, {mark, "a"}, {mark, "ab"}, {"b", mark}};
  options.unk_token = "?";
  std::mt19937 draw(11);
  for (const bool fuse_unk : {false, true}) {
    options.fuse_unk = fuse_unk;
    const auto model = MakeBytePairEncoder(vocab, options).value();
    CHECK(model->EndOfPart("a" + mark + "ab", 0) == 1);
    CHECK(model->EndOfPart("b" + mark + "ab", 0) == 6);  // no part: "b" and the mark are a token
    for (int round = 0; round < 2000; ++round) {
      std::string word;
      for (size_t size = draw() % 60; word.size() <= size;) {
        word += std::vector<std::string>{"a", "b", mark, mark, "x", "\u4e16"}[draw() % 6];
      }
      IdBuffer ids;
      model->AppendIds("", {TextPart{word}}, &ids);
      INFO(word);
      REQUIRE(ids.Copy() == IdsOf(*model, word));
    }
  }
}

}  // namespace distill
