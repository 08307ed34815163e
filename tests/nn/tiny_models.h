// Tiny random decoders, and a folder to keep files in, for the tests of nn/.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/nn/decoder.h"
#include "tests/support/catch.h"

namespace distill {

class TestFolder {
 public:
  TestFolder() : path_(std::filesystem::temp_directory_path() / absl::StrCat("distill_nn_", getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_; }
  void Write(const std::string& name, const std::string& text) const { std::ofstream(path_ / name) << text; }
  std::string Read(const std::string& name) const {
    std::ifstream stream(path_ / name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

 private:
  std::filesystem::path path_;
};

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
