// What makes tokens of a word: the "model" of tokenizer.json.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libdistill/text/id_buffer.h"
#include "libdistill/text/word_scanner.h"

namespace distill {

using Vocabulary = absl::flat_hash_map<std::string, int32_t>;

// A token, and the bytes [begin, end) of the word that it stands for.
struct WordToken {
  int32_t id;
  uint32_t begin, end;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // Appends the ids of words, valid UTF-8: those that `scanner` finds in `text`, or `words`, which may be parts of
  // `text`. Any thread may call it: words repeat, so each thread keeps those of short ones (word_cache.h), in 2 MiB for
  // each of the last two models that it used.
  void AppendIds(absl::string_view text, const WordScanner& scanner, IdBuffer* ids) const;
  void AppendIds(absl::string_view text, absl::Span<const TextPart> words, IdBuffer* ids) const;

  // The same with where the tokens stand.
  virtual void AppendTokens(absl::string_view word, std::vector<WordToken>* tokens) const = 0;

  // Where a part of `word` from `begin` on ends: the ids of a word are those of such parts, which are kept as words
  // are.
  virtual size_t EndOfPart(absl::string_view word, size_t) const { return word.size(); }

 private:
  class Words;

  const uint64_t number_ = NextNumber();  // of all models that there ever were
  static uint64_t NextNumber();
};

// The ids of `vocab` in a word that is whole there, and of `unk` elsewhere (WordLevel), or in the longest parts from
// left to right that are there (WordPiece; Wu et al. 2016, section 4.1): parts after the first are spelled with
// `continuing_prefix`, and a word that cannot be made of parts, or is longer than `max_characters`, is one `unk`.
struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_prefix = "##";
  int64_t max_characters = 100;
};
// InvalidArgument: unk_token is not in the vocabulary.
[[nodiscard]] absl::StatusOr<std::shared_ptr<const TokenModel>> MakeWordPiece(const Vocabulary& vocab,
                                                                              const WordPieceOptions& options);
[[nodiscard]] absl::StatusOr<std::shared_ptr<const TokenModel>> MakeWordLevel(const Vocabulary& vocab,
                                                                              const std::string& unk_token);

}  // namespace distill
