// Tiny random decoders for the tests of nn/.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/nn/decoder.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {

inline std::string TinyConfigJson(const std::string& model_type = "qwen2") {
  return absl::StrReplaceAll(R"({
  "model_type": "TYPE",
  "vocab_size": 61,
  "hidden_size": 24,
  "intermediate_size": 40,
  "num_hidden_layers": 2,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "head_dim": 8,
  "initializer_range": 0.2,
  "rope_theta": 1000.0,
  "tie_word_embeddings": false,
  "torch_dtype": "float32"
})",
                             {{"TYPE", model_type}});
}

inline DecoderConfig TinyConfig(const std::string& model_type = "qwen2") {
  auto config = ParseDecoderConfig(TinyConfigJson(model_type), "tiny");
  INFO(config.status());
  REQUIRE(config.ok());
  return *config;
}

}  // namespace distill
