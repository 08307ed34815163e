// The shape of a decoder that trains in no time, for tests of train/.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libdistill/nn/decoder.h"

namespace distill::testing {

inline absl::StatusOr<DecoderConfig> TinyLlama(int layers = 1, int intermediate = 64) {
  return ParseDecoderConfig(
      absl::StrCat(R"({"model_type": "llama", "vocab_size": 61, "hidden_size": 32, "intermediate_size": )",
                   intermediate, R"(, "num_hidden_layers": )", layers,
                   R"(, "num_attention_heads": 4, "num_key_value_heads": 4,
                       "tie_word_embeddings": true, "torch_dtype": "float32"})"),
      "tiny");
}

}  // namespace distill::testing
