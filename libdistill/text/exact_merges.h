// Byte-pair encoding from left to right, without merging. Internal to text/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "libdistill/text/byte_trie.h"
#include "libdistill/text/pair_table.h"
#include "libdistill/text/token_model.h"

namespace distill {

class ExactMerges {
 public:
  struct Rule {
    int32_t left, right, merged;
  };
  using Symbols = std::vector<std::pair<std::string, int32_t>>;

  // Of the bytes or characters that words consist of, with their ids, and of different rules, of which the first one is
  // applied first. nullopt: the rules are in an order that this cannot follow, such as one that makes a token before
  // the tokens that it is made of.
  static std::optional<ExactMerges> Of(const Symbols& symbols, const std::vector<Rule>& rules);

  // Whether merging makes this token of its own text.
  bool Makes(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < tokens_.size() && tokens_[id].bytes > 0; }

  // Appends the tokens of the symbols that `text` begins with, which stands at byte `place` of its word, and returns
  // how many bytes these are: all up to a byte or character that is no symbol. Any thread may call it; linear time.
  size_t Append(absl::string_view text, uint32_t place, std::vector<WordToken>* tokens) const;

 private:
  struct Token {
    int32_t left = 0, right = 0;  // what it is merged of, unless it is a symbol
    uint32_t order = 0;           // of that merge, from 1; 0: a symbol
    uint32_t bytes = 0;           // 0: merging does not make this token
  };

  bool AddRules(const std::vector<Rule>& rules);
  void IndexTokens(const Symbols& symbols, const std::vector<Rule>& rules);
  bool AreFinal(int32_t left, int32_t right) const;
  int32_t LongestAt(absl::string_view text, size_t begin) const;

  std::vector<Token> tokens_;     // by id
  std::vector<int32_t> shorter_;  // by id: the longest token that it begins with; -1: none
  PairTable merges_;
  std::optional<ByteTrie> trie_;  // of all tokens that merging makes
};

}  // namespace distill
