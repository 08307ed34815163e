#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_trie.h"
#include "libdistill/text/token_model.h"

namespace distill {
namespace {

absl::StatusOr<int32_t> UnknownId(const Vocabulary& vocab, const std::string& unk_token) {
  const auto found = vocab.find(unk_token);
  if (found != vocab.end()) return found->second;
  return absl::InvalidArgumentError(absl::StrCat("unk_token '", unk_token, "' is not in the vocabulary"));
}

// A token of some text's beginning, and its size; kNone: there is none.
struct Match {
  int32_t id = ByteTrie::kNone;
  uint32_t size = 0;
};

Match LongestMatch(const ByteTrie& trie, absl::string_view text) {
  Match longest;
  int32_t node = ByteTrie::kRoot;
  for (uint32_t size = 1; size <= text.size(); ++size) {
    node = trie.Next(node, static_cast<uint8_t>(text[size - 1]));
    if (node == ByteTrie::kNone) break;
    if (trie.ValueAt(node) != ByteTrie::kNone) longest = {trie.ValueAt(node), size};
  }
  return longest;
}

// The tokens that begin with `prefix`, without it.
ByteTrie::Entries Behind(absl::string_view prefix, const Vocabulary& vocab) {
  ByteTrie::Entries tokens;
  for (const auto& [token, id] : vocab) {
    if (token.size() > prefix.size() && absl::StartsWith(token, prefix)) {
      tokens.emplace_back(absl::string_view(token).substr(prefix.size()), id);
    }
  }
  return tokens;
}

class WordPiece final : public TokenModel {
 public:
  WordPiece(const Vocabulary& vocab, const WordPieceOptions& options, int32_t unknown)
      : first_(Behind("", vocab)),
        later_(Behind(options.continuing_prefix, vocab)),
        max_characters_(options.max_characters),
        unknown_(unknown) {}

  void AppendTokens(absl::string_view word, std::vector<WordToken>* tokens) const override {
    const auto size = static_cast<uint32_t>(word.size());
    const size_t before = tokens->size();
    bool is_known = static_cast<int64_t>(CountCodePoints(word)) <= max_characters_;
    for (uint32_t at = 0; is_known && at < size;) {
      const Match match = LongestMatch(at == 0 ? first_ : later_, word.substr(at));
      is_known = match.id != ByteTrie::kNone;
      if (is_known) tokens->push_back({match.id, at, at + match.size});
      at += match.size;
    }
    if (is_known) return;
    tokens->resize(before);
    tokens->push_back({unknown_, 0, size});
  }

 private:
  const ByteTrie first_, later_;
  const int64_t max_characters_;
  const int32_t unknown_;
};

class WordLevel final : public TokenModel {
 public:
  WordLevel(const Vocabulary& vocab, int32_t unknown) : vocab_(vocab), unknown_(unknown) {}

  void AppendTokens(absl::string_view word, std::vector<WordToken>* tokens) const override {
    const auto found = vocab_.find(word);
    tokens->push_back({found == vocab_.end() ? unknown_ : found->second, 0, static_cast<uint32_t>(word.size())});
  }

 private:
  const Vocabulary vocab_;
  const int32_t unknown_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenModel>> MakeWordPiece(const Vocabulary& vocab,
                                                                const WordPieceOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const int32_t unknown, UnknownId(vocab, options.unk_token));
  return std::make_shared<const WordPiece>(vocab, options, unknown);
}

absl::StatusOr<std::shared_ptr<const TokenModel>> MakeWordLevel(const Vocabulary& vocab, const std::string& unk_token) {
  DISTILL_ASSIGN_OR_RETURN(const int32_t unknown, UnknownId(vocab, unk_token));
  return std::make_shared<const WordLevel>(vocab, unknown);
}

}  // namespace distill
