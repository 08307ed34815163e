#include "libdistill/text/token_stream.h"

#include "libdistill/core/random.h"
#include "libdistill/core/utf8.h"
#include "tests/support/catch.h"
#include "tests/text/chat_tokenizer.h"

namespace distill {
namespace {

TEST_CASE("a character is given out when all its bytes are there") {
  const Tokenizer tokenizer = MakeChatTokenizer({"<|end|>"});
  TokenStream stream(tokenizer);
  CHECK(stream.Add('a') == "a");
  CHECK(stream.Add(0xE2) == "");
  CHECK(stream.Add(0x82) == "");
  CHECK(stream.Add(0xAC) == "\xE2\x82\xAC");
  CHECK(stream.Add(256) == "");
  CHECK(stream.Add('b') == "b");
  CHECK(stream.Add(0xE2) == "");
  CHECK(stream.Finish() == "\xEF\xBF\xBD");
  CHECK(stream.Finish() == "");
  TokenStream all(tokenizer, /*skip_special_tokens=*/false);
  CHECK(all.Add(256) == "<|end|>");
}

TEST_CASE("whatever bytes come, the parts are valid UTF-8 and together what Decode gives") {
  const Tokenizer tokenizer = MakeChatTokenizer({"<|end|>"});
  Random random(3, 0);
  for (int i = 0; i < 300; ++i) {
    std::vector<int32_t> ids;
    const std::string piece = i % 3 == 0 ? "\xF0\x9F\x98\x80" : i % 3 == 1 ? "\xC3\xA9t\xC3\xA9 " : "";
    for (int k = 0; k < 10; ++k) {
      for (const char c : piece) ids.push_back(static_cast<unsigned char>(c));
      if (random.Below(3) == 0) ids.push_back(static_cast<int32_t>(random.Below(257)));
    }
    TokenStream stream(tokenizer);
    std::string text;
    for (const int32_t id : ids) {
      const std::string part = stream.Add(id);
      CHECK(IsValidUtf8(part));
      text += part;
    }
    text += stream.Finish();
    CHECK(text == tokenizer.Decode(ids, /*skip_special_tokens=*/true));
  }
}

TEST_CASE("bytes that are no text do not pile up") {
  TokenStream stream(MakeChatTokenizer({}));
  size_t given = 0;
  for (int i = 0; i < 100; ++i) given += stream.Add(0xFF).size() / 3;
  CHECK(given >= 80);
  CHECK(given + stream.Finish().size() / 3 == 100);
}

}  // namespace
}  // namespace distill
