#include "libdistill/text/token_offsets.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using Spans = std::vector<std::pair<int64_t, int64_t>>;

// The 256 bytes, "ab", and <|end|>, which takes the white space after it along.
Tokenizer MakeTokenizer(const std::string& normalizer, const std::string& pre_tokenizer) {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(byte)), &token);
    if (token == "\"" || token == "\\") token = "\\" + token;
    absl::StrAppend(&vocab, "\"", token, "\": ", byte, ", ");
  }
  const std::string json = absl::StrCat(
      R"({"added_tokens": [{"id": 257, "content": "<|end|>", "special": true, "rstrip": true}], "normalizer": )",
      normalizer, R"(, "pre_tokenizer": )", pre_tokenizer, R"(, "decoder": {"type": "ByteLevel"}, "model": )",
      R"({"type": "BPE", "vocab": {)", vocab, R"("ab": 256}, "merges": ["a b"]}})");
  auto tokenizer = Tokenizer::Parse({json}, "tokenizer.json");
  INFO(tokenizer.status());
  REQUIRE(tokenizer.ok());
  return *std::move(tokenizer);
}

constexpr char kPlain[] = R"({"type": "ByteLevel", "add_prefix_space": false})";

absl::StatusOr<Spans> Offsets(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.Encode(text).value();
  return OffsetsOf(tokenizer, text, ids);
}

TEST_CASE("offsets are bytes of the text, also within a character and around added tokens") {
  const Tokenizer tokenizer = MakeTokenizer("null", kPlain);
  CHECK(*Offsets(tokenizer, "xab ab") == Spans{{0, 1}, {1, 3}, {3, 4}, {4, 6}});
  CHECK(*Offsets(tokenizer, "é") == Spans{{0, 1}, {1, 2}});
  CHECK(*Offsets(tokenizer, "ab<|end|>  \n ab") == Spans{{0, 2}, {2, 9}, {13, 15}});
  CHECK(Offsets(tokenizer, "")->empty());
}

TEST_CASE("a space that the tokenizer put before the text has no width") {
  const Tokenizer tokenizer = MakeTokenizer("null", R"({"type": "ByteLevel", "add_prefix_space": true})");
  CHECK(*Offsets(tokenizer, "ab x") == Spans{{0, 0}, {0, 2}, {2, 3}, {3, 4}});
}

TEST_CASE("what normalization joins is the original between ASCII characters; the rest stays exact") {
  const Tokenizer tokenizer = MakeTokenizer(R"({"type": "NFC"})", kPlain);
  // "ab", e with a combining acute accent (3 bytes, 2 in form C), "x": bytes 0-2, 2-5, 5-6.
  CHECK(*Offsets(tokenizer, "abe\xCC\x81x") == Spans{{0, 2}, {2, 5}, {2, 5}, {5, 6}});
  // What is in form C already stays exact beside it.
  CHECK(*Offsets(tokenizer, "\xC3\xA9 e\xCC\x81") == Spans{{0, 1}, {1, 2}, {2, 3}, {3, 6}, {3, 6}});
}

TEST_CASE("tokens of another text are refused") {
  const Tokenizer tokenizer = MakeTokenizer("null", kPlain);
  const absl::Status status = OffsetsOf(tokenizer, "ab", tokenizer.Encode("abx").value()).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), "token 1 ('x') does not stand in the text"));
}

}  // namespace
}  // namespace distill
