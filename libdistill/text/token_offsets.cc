#include "libdistill/text/token_offsets.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/text/byte_level.h"
#include "libdistill/text/unicode.h"

namespace distill {
namespace {

using Spans = std::vector<std::pair<int64_t, int64_t>>;

std::string BytesOf(const Tokenizer& tokenizer, int32_t id) {
  const std::string token(tokenizer.IdToToken(id));
  std::string bytes;
  return DecodeByteLevel(token, &bytes) ? bytes : token;
}

// Tokens spell the text one after another. What they leave out is white space: a pre-tokenizer may remove it, and an
// added token take it along. Ends at the first token that is not there, so the result may be shorter.
Spans Align(absl::string_view text, const std::vector<std::string>& tokens) {
  Spans spans;
  size_t at = 0;
  for (const std::string& token : tokens) {
    absl::string_view bytes = token;
    for (size_t skipped = at;; ++skipped) {
      if (absl::StartsWith(text.substr(skipped), bytes)) {
        at = skipped;
        break;
      }
      const bool can_skip = skipped < text.size() && absl::ascii_isspace(static_cast<unsigned char>(text[skipped]));
      if (can_skip) continue;
      if (!absl::ConsumePrefix(&bytes, " ")) return spans;
      skipped = at - 1;  // once more, without the space that was put before the text
    }
    spans.emplace_back(at, at + bytes.size());
    at += bytes.size();
  }
  return spans;
}

// A text in normal form, and for each of its bytes what of the original it comes from. An ASCII character never joins
// what stands before it, so the parts that begin with one are normalized by themselves.
struct Normalized {
  explicit Normalized(absl::string_view original) {
    for (size_t begin = 0, end = 0; begin < original.size(); begin = end) {
      for (end = begin + 1; end < original.size() && static_cast<uint8_t>(original[end]) >= 0x80;) ++end;
      const absl::string_view part = original.substr(begin, end - begin);
      const std::string normal = Nfc(part);
      for (size_t i = 0; i < normal.size(); ++i) {
        const bool is_same = normal == part;
        origins.emplace_back(is_same ? begin + i : begin, is_same ? begin + i + 1 : end);
      }
      text += normal;
    }
  }

  std::string text;
  Spans origins;
};

}  // namespace

absl::StatusOr<std::vector<std::pair<int64_t, int64_t>>> OffsetsOf(const Tokenizer& tokenizer, absl::string_view text,
                                                                   absl::Span<const int32_t> ids) {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) tokens.push_back(BytesOf(tokenizer, id));
  Spans spans = Align(text, tokens);
  if (spans.size() == tokens.size()) return spans;
  const Normalized normalized(text);
  spans = Align(normalized.text, tokens);
  if (spans.size() < tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("token ", spans.size(), " ('", tokens[spans.size()],
                                                   "') does not stand in the text where it should: this tokenizer "
                                                   "changes texts in a way whose offsets are not known"));
  }
  for (auto& span : spans) {
    const auto [begin, end] = span;
    const bool is_last = begin == static_cast<int64_t>(normalized.origins.size());
    const int64_t at = is_last ? static_cast<int64_t>(text.size()) : normalized.origins[begin].first;
    span = {at, begin == end ? at : normalized.origins[end - 1].second};
  }
  return spans;
}

}  // namespace distill
