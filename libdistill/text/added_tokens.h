// Added tokens: found in the text before everything else, longest first (as the Python package `tokenizers` does it).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libdistill/text/byte_trie.h"

namespace distill {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;   // searched in the normalized text
  bool lstrip = false;       // takes the whitespace before it along
  bool rstrip = false;       // and after it
  bool single_word = false;  // only where no word character touches it
};

class AddedTokenMatcher {
 public:
  // `tokens` with the contents that are searched.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  struct Piece {
    size_t begin, end;  // bytes of the text
    int32_t id = -1;    // of an added token; -1: text between tokens
  };
  // Covers `text`, apart from what an overlap with stripped whitespace hides.
  std::vector<Piece> Split(absl::string_view text) const;

 private:
  // Where a token may begin, at `begin` or behind it; text.size() where none does.
  size_t NextStart(absl::string_view text, size_t begin) const;
  // The longest token at the start of `text`; nullptr: none.
  const AddedToken* MatchAt(absl::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::optional<ByteTrie> trie_;    // with places in tokens_; nullopt: there are none
  std::array<bool, 256> starts_{};  // a token
  std::optional<char> only_start_;
};

}  // namespace distill
