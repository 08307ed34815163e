#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/token_model.h"

namespace distill {
namespace {

absl::StatusOr<int32_t> UnknownId(const Vocabulary& vocab, const std::string& unk_token) {
  const auto found = vocab.find(unk_token);
  if (found != vocab.end()) return found->second;
  return absl::InvalidArgumentError(absl::StrCat("unk_token '", unk_token, "' is not in the vocabulary"));
}

// Tokens by their bytes, found by the longest that a text begins with.
class LongestMatch {
 public:
  void Add(absl::string_view token, int32_t id) {
    ids_.emplace(token, id);
    longest_ = std::max(longest_, token.size());
  }

  // nullptr: none.
  const std::pair<const std::string, int32_t>* Find(absl::string_view text) const {
    for (size_t size = std::min(text.size(), longest_); size > 0; --size) {
      const bool ends_character = size == text.size() || (static_cast<uint8_t>(text[size]) & 0xC0) != 0x80;
      if (!ends_character) continue;
      if (const auto found = ids_.find(text.substr(0, size)); found != ids_.end()) return &*found;
    }
    return nullptr;
  }

 private:
  absl::flat_hash_map<std::string, int32_t> ids_;
  size_t longest_ = 0;
};

class WordPiece final : public TokenModel {
 public:
  WordPiece(const Vocabulary& vocab, const WordPieceOptions& options, int32_t unknown)
      : max_characters_(options.max_characters), unknown_(unknown) {
    for (const auto& [token, id] : vocab) {
      first_.Add(token, id);
      if (absl::StartsWith(token, options.continuing_prefix)) {
        later_.Add(absl::string_view(token).substr(options.continuing_prefix.size()), id);
      }
    }
  }

  void AppendTokens(absl::string_view word, std::vector<WordToken>* tokens) const override {
    const auto size = static_cast<uint32_t>(word.size());
    const size_t before = tokens->size();
    bool is_known = static_cast<int64_t>(CountCodePoints(word)) <= max_characters_;
    for (uint32_t at = 0; is_known && at < size;) {
      const auto* found = (at == 0 ? first_ : later_).Find(word.substr(at));
      is_known = found != nullptr;
      if (!is_known) break;
      const uint32_t end = at + static_cast<uint32_t>(found->first.size());
      tokens->push_back({found->second, at, end});
      at = end;
    }
    if (is_known) return;
    tokens->resize(before);
    tokens->push_back({unknown_, 0, size});
  }

 private:
  LongestMatch first_, later_;
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
