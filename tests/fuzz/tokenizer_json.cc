// Bytes as a tokenizer.json; behind a zero byte, those of a tokenizer_config.json.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/try_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const size_t zero = all.find('\0');
  distill::TokenizerTexts texts{all.substr(0, zero)};
  if (zero != std::string::npos) texts.tokenizer_config = all.substr(zero + 1);
  distill::TryTokenizer(distill::Tokenizer::Parse(texts, "tokenizer.json"));
  return 0;
}
