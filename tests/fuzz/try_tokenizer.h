// What is done with a tokenizer that fuzzed bytes gave.
#pragma once

#include "absl/status/statusor.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

inline void TryTokenizer(const absl::StatusOr<Tokenizer>& tokenizer) {
  if (!tokenizer.ok()) return;
  for (const char* text :
       {"", "Hello, w\xC3\xB6rld! <s>it's 12 34\n\n  \xE6\x97\xA5\xE6\x9C\xAC\xF0\x9F\x99\x82\xE2\x96\x81</s>",
        "\xFF\xC3"}) {
    if (const auto ids = tokenizer->Encode(text); ids.ok()) tokenizer->Decode(*ids);
    const auto encoding = tokenizer->EncodeInput(text, "second", {.max_length = 6, .stride = 1});
    if (encoding.ok()) tokenizer->Decode(encoding->ids, true);
  }
}

}  // namespace distill
