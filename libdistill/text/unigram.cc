// Viterbi's algorithm from left to right: the best way to each place is the best way to where its last token begins,
// and that token. A character that no token is alone gets a way of its own, as the unknown token, at a penalty.
#include "libdistill/text/unigram.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_trie.h"

namespace distill {
namespace {

constexpr double kUnknownPenalty = 10.0;

ByteTrie::Entries Listed(const Vocabulary& ids) { return ByteTrie::Entries(ids.begin(), ids.end()); }

Vocabulary IdsOf(const UnigramOptions& options) {
  Vocabulary ids;
  for (size_t id = 0; id < options.tokens.size(); ++id) {
    if (!options.tokens[id].first.empty()) ids[options.tokens[id].first] = static_cast<int32_t>(id);
  }
  return ids;
}

class Unigram final : public TokenModel {
 public:
  explicit Unigram(const UnigramOptions& options) : ids_(IdsOf(options)), trie_(Listed(ids_)), unk_id_(options.unk_id) {
    double lowest = options.tokens[0].second;
    for (const auto& [token, score] : options.tokens) {
      scores_.push_back(score);
      lowest = std::min(lowest, score);
    }
    unknown_score_ = lowest - kUnknownPenalty;
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = ids_.find(absl::StrFormat("<0x%02X>", byte));
      byte_ids_[byte] = options.byte_fallback && found != ids_.end() ? found->second : -1;
    }
  }

  void AppendTokens(absl::string_view word, std::vector<WordToken>* tokens) const override {
    thread_local std::vector<Step> steps;  // its memory serves the next word
    FindBestSteps(word, &steps);
    const size_t before = tokens->size();
    for (uint32_t end = static_cast<uint32_t>(word.size()); end > 0;) {
      uint32_t begin = static_cast<uint32_t>(steps[end].begin);
      if (steps[end].id == unk_id_) {  // a run of them is one
        while (begin > 0 && steps[begin].id == unk_id_) begin = static_cast<uint32_t>(steps[begin].begin);
        AppendUnknownReversed(word, begin, end, tokens);
      } else {
        tokens->push_back({steps[end].id, begin, end});
      }
      end = begin;
    }
    std::reverse(tokens->begin() + before, tokens->end());
  }

 private:
  // The last step of the best way to a place.
  struct Step {
    double score = 0;  // of the whole way
    int32_t id = -1;
    int32_t begin = -1;  // -1: no way leads here
  };

  // To all places of the word.
  void FindBestSteps(absl::string_view word, std::vector<Step>* result) const {
    std::vector<Step>& steps = *result;
    steps.assign(word.size() + 1, Step{});
    const auto improve = [&](size_t from, size_t to, int32_t id, double score) {
      const double way = steps[from].score + score;
      if (steps[to].begin < 0 || way > steps[to].score) steps[to] = {way, id, static_cast<int32_t>(from)};
    };
    for (size_t at = 0; at < word.size();) {
      size_t next = at;
      NextCodePoint(word, &next);
      bool has_character = false;
      int32_t node = ByteTrie::kRoot;
      for (size_t end = at; end < word.size();) {
        node = trie_.Next(node, static_cast<uint8_t>(word[end++]));
        if (node == ByteTrie::kNone) break;
        const int32_t id = trie_.ValueAt(node);
        if (id == ByteTrie::kNone) continue;
        improve(at, end, id, scores_[id]);
        has_character = has_character || end == next;
      }
      if (!has_character) improve(at, next, unk_id_, unknown_score_);
      at = next;
    }
  }

  void AppendUnknownReversed(absl::string_view word, uint32_t begin, uint32_t end,
                             std::vector<WordToken>* tokens) const {
    const absl::string_view run = word.substr(begin, end - begin);
    if (const auto found = ids_.find(run); found != ids_.end()) return tokens->push_back({found->second, begin, end});
    const auto id_of = [this](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
    if (!std::all_of(run.begin(), run.end(), [&](char byte) { return id_of(byte) >= 0; })) {
      return tokens->push_back({unk_id_, begin, end});
    }
    for (size_t i = run.size(); i-- > 0;) tokens->push_back({id_of(run[i]), begin, end});
  }

  const Vocabulary ids_;
  const ByteTrie trie_;
  std::vector<double> scores_;
  double unknown_score_;
  const int32_t unk_id_;
  std::array<int32_t, 256> byte_ids_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenModel>> MakeUnigram(const UnigramOptions& options) {
  if (options.unk_id < 0 || static_cast<size_t>(options.unk_id) >= options.tokens.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unk_id is ", options.unk_id, ", and the vocabulary has ", options.tokens.size(), " tokens"));
  }
  return std::make_shared<const Unigram>(options);
}

}  // namespace distill
