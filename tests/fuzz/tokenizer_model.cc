// Bytes as SentencePiece's tokenizer.model, read by the rules of each class.
#include <cstddef>
#include <cstdint>
#include <string>

#include "libdistill/text/sentence_piece_model.h"
#include "tests/fuzz/try_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string model(reinterpret_cast<const char*>(data), size);
  for (const char* config : {"{}", R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "legacy": true})",
                             R"({"tokenizer_class": "GemmaTokenizer"})", R"({"tokenizer_class": "T5Tokenizer"})"}) {
    distill::TokenizerTexts texts;
    texts.tokenizer_config = config;
    if (!distill::CompleteFromSentencePiece(model, &texts).ok()) continue;
    distill::TryTokenizer(distill::Tokenizer::Parse(texts, "tokenizer.model"));
  }
  return 0;
}
