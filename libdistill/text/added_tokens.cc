#include "libdistill/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/unicode.h"

namespace distill {
namespace {

bool EndsWithWord(absl::string_view text) {
  if (text.empty()) return false;
  size_t last = LastCodePoint(text);
  return IsWordCharacter(NextCodePoint(text, &last));
}

bool StartsWithWord(absl::string_view text) {
  size_t first = 0;
  return !text.empty() && IsWordCharacter(NextCodePoint(text, &first));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  absl::flat_hash_map<std::string, int32_t> places;  // of two with the same content the first one counts
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (!tokens_[i].content.empty()) places.emplace(tokens_[i].content, static_cast<int32_t>(i));
  }
  if (places.empty()) return;
  for (const auto& [content, place] : places) starts_[static_cast<uint8_t>(content[0])] = true;
  if (std::count(starts_.begin(), starts_.end(), true) == 1) only_start_ = places.begin()->first[0];
  trie_.emplace(ByteTrie::Entries(places.begin(), places.end()));
}

size_t AddedTokenMatcher::NextStart(absl::string_view text, size_t begin) const {
  if (only_start_) return std::min(text.find(*only_start_, begin), text.size());
  while (begin < text.size() && !starts_[static_cast<uint8_t>(text[begin])]) ++begin;
  return begin;
}

const AddedToken* AddedTokenMatcher::MatchAt(absl::string_view text) const {
  const AddedToken* longest = nullptr;
  int32_t node = ByteTrie::kRoot;
  for (const char byte : text) {
    node = trie_->Next(node, static_cast<uint8_t>(byte));
    if (node == ByteTrie::kNone) break;
    if (trie_->ValueAt(node) != ByteTrie::kNone) longest = &tokens_[trie_->ValueAt(node)];
  }
  return longest;
}

std::vector<AddedTokenMatcher::Piece> AddedTokenMatcher::Split(absl::string_view text) const {
  std::vector<Piece> pieces;
  size_t done = 0;
  for (size_t i = 0; trie_ && (i = NextStart(text, i)) < text.size();) {
    const AddedToken* token = MatchAt(text.substr(i));
    if (token == nullptr) {
      ++i;
      continue;
    }
    size_t begin = i;
    size_t end = i + token->content.size();
    i = end;
    if (token->single_word && (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end)))) continue;
    if (token->lstrip) begin = std::max(WithoutTrailingSpace(text.substr(0, begin)), done);
    if (token->rstrip) end += LeadingSpace(text.substr(end));
    if (begin > done) pieces.push_back({done, begin});
    pieces.push_back({begin, end, token->id});
    done = end;
  }
  if (done < text.size()) pieces.push_back({done, text.size()});
  return pieces;
}

}  // namespace distill
