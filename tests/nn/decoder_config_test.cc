#include "libdistill/nn/decoder_config.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/nn/config_reader.h"
#include "tests/nn/tiny_models.h"

namespace distill {
namespace {

// The tiny config with one more field (or the same one again replaced).
absl::StatusOr<DecoderConfig> ParseWith(const std::string& field, const std::string& value,
                                        const std::string& model_type = "llama") {
  std::string json = TinyConfigJson(model_type);
  const size_t old = json.find(absl::StrCat("\"", field, "\""));
  if (old != std::string::npos) json.erase(old, json.find('\n', old) - old);
  return ParseDecoderConfig(absl::StrReplaceAll(json, {{"{\n", absl::StrCat("{\n\"", field, "\": ", value, ",\n")}}),
                            "x/config.json");
}

void CheckRefused(const std::string& field, const std::string& value, const std::string& model_type = "llama") {
  const absl::Status status = ParseWith(field, value, model_type).status();
  INFO(field << ": " << value << ": " << status);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), "x/config.json"));
  CHECK(absl::StrContains(status.message(), field));
}

TEST_CASE("the older form and that of transformers 5 give the same config") {
  const std::string base = R"("model_type": "llama", "vocab_size": 9, "hidden_size": 8, "intermediate_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "attention_dropout": 0.0, "pretraining_tp": 1)";
  const std::string scaling = R"("factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192, "rope_type": "llama3")";
  const auto older = ParseDecoderConfig(absl::StrCat("{", base, R"(, "torch_dtype": "bfloat16", "rope_theta": 5e5,
    "rope_scaling": {)",
                                                     scaling, "}}"),
                                        "older");
  const auto newer = ParseDecoderConfig(absl::StrCat("{", base, R"(, "dtype": "bfloat16",
    "rope_parameters": {"rope_theta": 500000.0, )",
                                                     scaling, "}}"),
                                        "newer");
  INFO(older.status() << newer.status());
  REQUIRE(older.ok());
  REQUIRE(newer.ok());
  for (const DecoderConfig& config : {*older, *newer}) {
    CHECK(config.rope_theta == 5e5);
    REQUIRE(config.llama3_scaling.has_value());
    CHECK(config.llama3_scaling->factor == 32.0);
    CHECK(config.llama3_scaling->original_max_position_embeddings == 8192);
    CHECK(config.num_key_value_heads == 2);
    CHECK(config.head_dim == 4);
    CHECK_FALSE(config.query_key_value_bias);
  }
  CHECK(absl::StrContains(ConfigJsonWithDType(older->json, "float32").value(), R"("torch_dtype": "float32")"));
  CHECK_FALSE(absl::StrContains(ConfigJsonWithDType(older->json, "float32").value(), R"( "dtype")"));
  CHECK(absl::StrContains(ConfigJsonWithDType(newer->json, "float32").value(), R"( "dtype": "float32")"));
  CHECK(absl::StrContains(ConfigJsonWithDType(newer->json, "float32").value(), R"("pretraining_tp": 1)"));
}

TEST_CASE("what changes the computation is honoured") {
  CHECK(ParseWith("attention_bias", "true")->query_key_value_bias);
  CHECK(ParseWith("attention_bias", "true")->output_bias);
  CHECK(ParseWith("mlp_bias", "true")->mlp_bias);
  CHECK(ParseWith("rms_norm_eps", "1e-5")->rms_norm_eps == 1e-5);
  CHECK(ParseWith("tie_word_embeddings", "true")->tie_word_embeddings);
  CHECK(ParseWith("head_dim", "null")->head_dim == 6);
  CHECK(ParseWith("num_key_value_heads", "null")->num_key_value_heads == 4);
  CHECK(ParseWith("pad_token_id", "60")->pad_token_id == 60);
  CHECK(ParseWith("pad_token_id", "-1")->pad_token_id == 60);  // of 61, as torch counts from the end
  CHECK(ParseWith("pad_token_id", "null")->pad_token_id == -1);
  CHECK(TinyConfig("qwen2").query_key_value_bias);
  CHECK_FALSE(TinyConfig("qwen2").output_bias);
  CHECK(ParseWith("use_sliding_window", "false", "qwen2").ok());
  CHECK(ParseWith("sliding_window", "131072", "qwen2").ok());  // nothing without use_sliding_window
  CHECK(ParseWith("layer_types", R"(["full_attention", "full_attention"])", "qwen2").ok());
  CHECK(ParseWith("rope_scaling", "null").ok());
  CHECK(ParseWith("a_field_of_the_future", "1").ok());  // with a warning
}

TEST_CASE("what changes the computation in a way that is not there is refused by name") {
  for (const char* type : {"linear", "dynamic", "yarn", "longrope"}) {
    const std::string rope = absl::StrCat(R"({"factor": 2.0, "rope_type": ")", type, "\"}");
    CheckRefused("rope_scaling", rope);
    CheckRefused("rope_parameters", rope);
    CheckRefused("rope_scaling", absl::StrCat(R"({"factor": 2.0, "type": ")", type, "\"}"));
    CHECK(absl::StrContains(ParseWith("rope_scaling", rope).status().message(), type));
  }
  CheckRefused("hidden_act", "\"gelu\"");
  CheckRefused("attention_dropout", "1.1");
  CheckRefused("pretraining_tp", "2");
  CheckRefused("partial_rotary_factor", "0.5");
  CheckRefused("quantization_config", R"({"bits": 4})");
  CheckRefused("use_sliding_window", "true", "qwen2");
  CheckRefused("sliding_window", "4096");
  CheckRefused("layer_types", R"(["full_attention", "sliding_attention"])", "qwen2");
  CheckRefused("layer_types", R"(["full_attention"])", "qwen2");
  CheckRefused("attention_bias", "false", "qwen2");
  CheckRefused("mlp_bias", "true", "qwen2");
  for (const char* field :
       {"logit_scale", "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling",
        "final_logit_softcapping", "attn_logit_softcapping", "attention_chunk_size"}) {
    CheckRefused(field, "8.0");
  }
  for (const char* field : {"qk_norm", "use_qk_norm", "is_encoder_decoder", "alibi"}) CheckRefused(field, "true");
  CheckRefused("no_rope_layers", "[1, 0]");
  CheckRefused("per_layer_config", R"({"1": {"hidden_act": "gelu"}})");
  CheckRefused("transformers_weights", "\"other.safetensors\"");
  CHECK(ParseWith("logit_scale", "1").ok());
  CHECK(ParseWith("logit_scale", "1.0").ok());
  CHECK(ParseWith("quantization_config", "null").ok());
}

TEST_CASE("another model type is refused with those that are supported") {
  const absl::Status status = ParseWith("model_type", "\"mistral\"").status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  for (const char* word : {"mistral", "qwen2", "llama"}) CHECK(absl::StrContains(status.message(), word));
}

TEST_CASE("numbers that make no sense name their field") {
  CheckRefused("vocab_size", "0");
  CheckRefused("pad_token_id", "61");
  CheckRefused("pad_token_id", "[1]");
  CheckRefused("vocab_size", "\"many\"");
  CheckRefused("hidden_size", "-8");
  CheckRefused("hidden_size", "1e99");
  CheckRefused("num_hidden_layers", "1000000000");
  CheckRefused("num_key_value_heads", "3");
  CheckRefused("head_dim", "7");
  CheckRefused("rms_norm_eps", "0");
  CheckRefused("tie_word_embeddings", "1");
  const absl::Status missing = ParseDecoderConfig(R"({"model_type": "llama"})", "x/config.json").status();
  CHECK(absl::StrContains(missing.message(), "vocab_size"));
  CHECK(ParseDecoderConfig("{\"a\": ", "x").status().code() == absl::StatusCode::kDataLoss);
  CHECK(ParseDecoderConfig(std::string(1000, '['), "x").status().code() == absl::StatusCode::kDataLoss);
  CHECK(ReadDecoderConfig("/nonexistent").status().code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace distill
