#include "libdistill/text/token_stream.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace distill {
namespace {

// More tokens than a character has bytes: a text that still ends in U+FFFD then is one of bytes that are no UTF-8.
constexpr size_t kMostWaiting = 16;

}  // namespace

// The tokens before the new ones are decoded again with them, and what they gave by themselves is left out: so a space
// between two tokens is there, and one that is dropped at the beginning of a text is not dropped within it.
std::string TokenStream::Add(int32_t id) {
  if (skips_special_ && tokenizer_.IsSpecial(id)) return "";
  ids_.push_back(id);
  const std::string text = tokenizer_.Decode(ids_);
  const bool is_unfinished = absl::EndsWith(text, "\xEF\xBF\xBD") && ids_.size() - given_ids_ < kMostWaiting;
  return is_unfinished || text.size() <= given_bytes_ ? "" : GiveOut(text);
}

std::string TokenStream::Finish() { return ids_.size() == given_ids_ ? "" : GiveOut(tokenizer_.Decode(ids_)); }

std::string TokenStream::GiveOut(const std::string& text) {
  size_t begin = std::min(given_bytes_, text.size());
  // Where bytes before them became U+FFFD, which are longer.
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(given_ids_));
  given_ids_ = ids_.size();
  given_bytes_ = tokenizer_.Decode(ids_).size();
  return text.substr(begin);
}

}  // namespace distill
