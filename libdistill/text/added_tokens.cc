#include "libdistill/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
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
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (!tokens_[i].content.empty()) by_first_byte_[static_cast<uint8_t>(tokens_[i].content[0])].push_back(i);
  }
  for (std::vector<size_t>& bucket : by_first_byte_) {
    std::stable_sort(bucket.begin(), bucket.end(),
                     [this](size_t a, size_t b) { return tokens_[a].content.size() > tokens_[b].content.size(); });
  }
}

const AddedToken* AddedTokenMatcher::MatchAt(absl::string_view text) const {
  for (const size_t index : by_first_byte_[static_cast<uint8_t>(text[0])]) {
    if (absl::StartsWith(text, tokens_[index].content)) return &tokens_[index];
  }
  return nullptr;
}

std::vector<AddedTokenMatcher::Piece> AddedTokenMatcher::Split(absl::string_view text) const {
  std::vector<Piece> pieces;
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
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
