// A tokenizer whose tokens are the 256 bytes, and special ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

inline std::string InQuotes(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

// `config` is the text of its tokenizer_config.json.
inline Tokenizer MakeChatTokenizer(const std::vector<std::string>& special, const std::string& config = "") {
  std::vector<std::string> vocab, added;
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(byte)), &token);
    vocab.push_back(absl::StrCat(InQuotes(token), ": ", byte));
  }
  for (const std::string& token : special) {
    added.push_back(
        absl::StrCat("{\"id\": ", 256 + added.size(), ", \"special\": true, \"content\": ", InQuotes(token), "}"));
  }
  const std::string json = absl::StrCat(
      "{\"added_tokens\": [", absl::StrJoin(added, ", "),
      "], \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"decoder\": {\"type\": "
      "\"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {",
      absl::StrJoin(vocab, ", "), "}, \"merges\": []}}");
  return Tokenizer::Parse({json, config}, "tokenizer.json").value();
}

}  // namespace distill
