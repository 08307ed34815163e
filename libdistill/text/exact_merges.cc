// Tokens t1 ... tn are what merging makes of their text if, and only if, it makes each neighbouring pair of them of
// that pair's text (the observation behind GitHub's crate bpe). For no merge crosses the border of two tokens of the
// result; so what happens within any stretch of them is what would happen were it alone. And a first merge that crosses
// a border of t1 ... tn would be the first one in the text of that pair, too.
//
// Hence a search: the longest token that fits behind the last one, and where none does, a shorter one in place of the
// last. Each place is reached at most once, since what leads to it is the encoding of all before it: linear time.
//
// Whether a pair is final is found by taking back the merges that made its two tokens, the last one first, and looking
// for a merge across the border that would have come earlier. This needs that each token is made in one way and later
// than its parts. The first always holds: merging is deterministic, so that all ways to a token's text but one never
// come to pass, and those are left out. The second does not for any file, and is checked: such rules are left to a
// heap.
#include "libdistill/text/exact_merges.h"

#include <algorithm>
#include <limits>

#include "libdistill/core/check.h"

namespace distill {

std::optional<ExactMerges> ExactMerges::Of(const Symbols& symbols, const std::vector<Rule>& rules) {
  int32_t most = 0;
  for (const auto& [text, id] : symbols) most = std::max(most, id);
  for (const Rule& rule : rules) most = std::max({most, rule.left, rule.right, rule.merged});
  ExactMerges exact;
  exact.tokens_.resize(static_cast<size_t>(most) + 1);
  for (const auto& [text, id] : symbols) {
    if (exact.Makes(id)) return std::nullopt;  // two symbols with one id
    exact.tokens_[id].bytes = static_cast<uint32_t>(text.size());
  }
  exact.merges_ = PairTable(rules.size());
  if (!exact.AddRules(rules)) return std::nullopt;
  exact.IndexTokens(symbols, rules);
  return exact;
}

// In their order: then all that a rule can depend on is known.
bool ExactMerges::AddRules(const std::vector<Rule>& rules) {
  std::vector<Rule> early;  // whose parts were not made before
  for (uint32_t order = 1; order <= rules.size(); ++order) {
    const auto& [left, right, merged] = rules[order - 1];
    if (!Makes(left) || !Makes(right)) {
      early.push_back(rules[order - 1]);
      continue;
    }
    if (!AreFinal(left, right)) continue;  // earlier merges take these parts to pieces
    if (Makes(merged)) return false;       // only where a symbol's text is that of two
    tokens_[merged] = {left, right, order, tokens_[left].bytes + tokens_[right].bytes};
    merges_.Put(left, right, {order, merged});
  }
  return std::none_of(early.begin(), early.end(), [this](const Rule& rule) {
    return Makes(rule.left) && Makes(rule.right) && AreFinal(rule.left, rule.right);
  });
}

void ExactMerges::IndexTokens(const Symbols& symbols, const std::vector<Rule>& rules) {
  Symbols made = symbols;
  std::vector<size_t> place(tokens_.size());  // in `made`
  for (size_t i = 0; i < made.size(); ++i) place[made[i].second] = i;
  for (uint32_t order = 1; order <= rules.size(); ++order) {
    const auto& [left, right, merged] = rules[order - 1];
    if (tokens_[merged].order != order) continue;
    place[merged] = made.size();
    made.emplace_back(made[place[left]].first + made[place[right]].first, merged);
  }
  trie_.emplace(ByteTrie::Entries(made.begin(), made.end()));
  shorter_.assign(tokens_.size(), -1);
  for (const auto& [text, id] : made) {
    const absl::string_view all = text;
    shorter_[id] = LongestAt(all.substr(0, all.size() - 1), 0);
  }
}

// Whether merging leaves these two tokens of their text as they are.
bool ExactMerges::AreFinal(int32_t left, int32_t right) const {
  uint32_t limit = std::numeric_limits<uint32_t>::max();  // a merge before this one can cross the border
  for (;;) {
    if (merges_.Of(left, right).rank < limit) return false;
    const uint32_t left_order = tokens_[left].order, right_order = tokens_[right].order;
    if (left_order > right_order) {
      limit = left_order;  // of two equal ones the left one comes first
      left = tokens_[left].right;
    } else if (right_order > 0) {
      limit = right_order + 1;
      right = tokens_[right].left;
    } else {
      return true;
    }
  }
}

int32_t ExactMerges::LongestAt(absl::string_view text, size_t begin) const {
  int32_t longest = -1;
  int32_t node = ByteTrie::kRoot;
  for (size_t at = begin; at < text.size(); ++at) {
    node = trie_->Next(node, static_cast<uint8_t>(text[at]));
    if (node == ByteTrie::kNone) break;
    const int32_t id = trie_->ValueAt(node);
    longest = id == ByteTrie::kNone ? longest : id;
  }
  return longest;
}

size_t ExactMerges::Append(absl::string_view text, uint32_t place, std::vector<WordToken>* tokens) const {
  thread_local std::vector<bool> is_dead_end;
  is_dead_end.clear();
  const size_t first = tokens->size();
  size_t at = 0;
  int32_t next = LongestAt(text, 0);
  if (next < 0) return 0;
  for (;;) {
    const bool has_last = tokens->size() > first;
    const int32_t last = has_last ? tokens->back().id : -1;
    const auto fits = [&](int32_t id) {
      const size_t end = at + tokens_[id].bytes;
      return (!has_last || AreFinal(last, id)) && (is_dead_end.empty() || !is_dead_end[end]);
    };
    while (next >= 0 && !fits(next)) next = shorter_[next];
    if (next >= 0) {
      const auto end = static_cast<uint32_t>(at + tokens_[next].bytes);
      tokens->push_back({next, place + static_cast<uint32_t>(at), place + end});
      at = end;
      next = LongestAt(text, at);
      if (next < 0) return at;  // no symbol stands here, so that no token reaches across
    } else {
      DISTILL_CHECK(has_last, "merging has an encoding for each text of symbols");
      if (is_dead_end.empty()) is_dead_end.resize(text.size() + 1);
      is_dead_end[at] = true;
      tokens->pop_back();
      at -= tokens_[last].bytes;
      next = shorter_[last];
    }
  }
}

}  // namespace distill
