// Bytes as BERT's vocab.txt.
#include "libdistill/text/vocab_txt.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/try_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  distill::TokenizerTexts texts;
  if (!distill::CompleteFromVocab(std::string(reinterpret_cast<const char*>(data), size), &texts).ok()) return 0;
  distill::TryTokenizer(distill::Tokenizer::Parse(texts, "vocab.txt"));
  return 0;
}
