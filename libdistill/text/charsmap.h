// SentencePiece's "precompiled_charsmap": what characters and clusters of them become. Internal to text/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/text/normalized_text.h"

namespace distill {

// Its bytes: the size of a trie in bytes, the trie (darts-clone's units of 4 bytes, little-endian), and texts that end
// with a zero byte; a leaf of the trie says at which byte its text begins.
class Charsmap {
 public:
  // DataLoss: not such bytes.
  [[nodiscard]] static absl::StatusOr<Charsmap> Parse(absl::string_view bytes);

  // What the shortest entry that `text` begins with becomes; nullopt: there is none.
  std::optional<absl::string_view> Find(absl::string_view text) const;

  // Grapheme clusters of less than six bytes as a whole, else their characters (as `tokenizers` applies it).
  void Apply(NormalizedText* text) const;

 private:
  std::vector<uint32_t> trie_;
  std::string texts_;
  std::array<bool, 128> ascii_changes_ = {};  // the character alone has an entry
};

}  // namespace distill
