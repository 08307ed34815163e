#include "tests/data/byte_tokenizer.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"

namespace distill {

Tokenizer ByteTokenizer(const std::string& eos_token, const std::string& post_processor) {
  std::string vocab, added;
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(byte)), &token);
    if (token == "\"" || token == "\\") token = "\\" + token;
    absl::StrAppend(&vocab, byte == 0 ? "" : ", ", "\"", token, "\": ", byte);
  }
  int id = 256;
  for (const char* token :
       {"<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}) {
    absl::StrAppend(&added, added.empty() ? "" : ", ", "{\"id\": ", id++, ", \"special\": true, \"content\": \"", token,
                    "\"}");
  }
  const std::string json =
      absl::StrCat("{\"added_tokens\": [", added, "], \"pre_tokenizer\": {\"type\": \"ByteLevel\", ",
                   "\"add_prefix_space\": false}, \"post_processor\": ", post_processor,
                   ", \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": ", "\"BPE\", \"vocab\": {", vocab,
                   "}, \"merges\": []}}");
  const std::string config = eos_token.empty() ? "" : absl::StrCat("{\"eos_token\": \"", eos_token, "\"}");
  return Tokenizer::Parse({json, config}, "tokenizer.json").value();
}

}  // namespace distill
