// Bytes as a pattern of tokenizer.json, matched with a text.
#include <cstddef>
#include <cstdint>
#include <string>

#include "libdistill/text/regex.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string pattern(reinterpret_cast<const char*>(data), size);
  const auto regex = distill::Regex::Compile(pattern);
  if (!regex.ok()) return 0;
  const std::string text = "ab1 \n\xC3\xA9\xE6\x97\xA5 aaaaaaaaaa's--";
  regex->ForEachMatch(text, [](size_t, size_t) {}).IgnoreError();
  return 0;
}
