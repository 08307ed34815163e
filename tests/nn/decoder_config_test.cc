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
    CHECK(config.ropes[0].theta == 5e5);
    CHECK(config.ropes[0].type == RopeType::kLlama3);
    CHECK(config.ropes[0].factor == 32.0);
    CHECK(config.ropes[0].original_length == 8192);
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
  CHECK(ParseWith("pretraining_tp", "2").ok());         // as SmolLM3's has it: nobody computes with it
}

TEST_CASE("every kind of rope is read, and what it lacks, or does not have, is named") {
  const auto rope = [](const std::string& fields) { return ParseWith("rope_parameters", "{" + fields + "}"); };
  CHECK(rope(R"("rope_type": "linear", "factor": 4)")->ropes[0].type == RopeType::kLinear);
  CHECK(rope(R"("type": "dynamic", "factor": 4)")->ropes[0].depends_on_length());
  const auto yarn = rope(R"("rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32)");
  CHECK(yarn->ropes[0].attention_factor == Approx(1.13863));  // 0.1 log 4 + 1
  CHECK(rope(R"("rope_type": "yarn", "factor": 4, "attention_factor": 2, "truncate": false)")->ropes[0].truncates ==
        false);
  const std::string factors = R"("short_factor": [1, 1, 1, 1], "long_factor": [2, 3, 4, 5])";
  const auto longrope = rope(R"("rope_type": "longrope", "original_max_position_embeddings": 256, )" + factors);
  CHECK(longrope->ropes[0].factor == 8);
  CHECK(longrope->ropes[0].KeyOf(256) == 0);
  CHECK(longrope->ropes[0].KeyOf(257) == 1);
  CHECK(ParseWith("rope_scaling", R"({"rope_type": "su", )" + factors + "}", "phi3")->ropes[0].type ==
        RopeType::kLongRope);
  for (const auto& [fields, named] :
       {std::pair(R"("rope_type": "linear")", "factor"), std::pair(R"("rope_type": "linear", "factor": 0)", "factor"),
        std::pair(R"("rope_type": "linear", "factor": 2, "beta_fast": 1)", "beta_fast"),
        std::pair(R"("rope_type": "longrope", "short_factor": [1])", "short_factor"),
        std::pair(R"("rope_type": "xpos", "factor": 2)", "rope_type"),
        std::pair(R"("partial_rotary_factor": 0.1)", "partial_rotary_factor"),
        std::pair(R"("full_attention": {"rope_type": "default"})", "rope_parameters")}) {
    const absl::Status status = rope(fields).status();
    INFO(fields << ": " << status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), named));
  }
}

TEST_CASE("windows and layers without positions are those of the family") {
  CHECK(ParseWith("sliding_window", "9", "mistral")->layer(1).window == 9);
  CHECK(ParseWith("sliding_window", "null", "mistral")->layer(1).window == 0);
  const auto windows = [](const char* types) {
    std::string json = TinyConfigJson("qwen3");
    return ParseDecoderConfig(absl::StrReplaceAll(json, {{"{\n", absl::StrCat(R"({"use_sliding_window": true,
        "sliding_window": 5, "layer_types": )",
                                                                              types, ",\n")}}),
                              "x/config.json");
  };
  CHECK(windows("null")->layer(0).window == 0);
  CHECK(windows(R"(["full_attention", "sliding_attention"])")->layer(1).window == 5);
  CHECK(absl::StrContains(windows(R"(["full_attention", "linear_attention"])").status().message(), "layer_types"));
  CHECK(ParseWith("no_rope_layers", "[0, 1]", "smollm3")->layer(0).rope == -1);
  CHECK(ParseWith("no_rope_layers", "[0, 1]", "smollm3")->layer(1).rope == 0);
  CHECK(ParseWith("no_rope_layer_interval", "2", "smollm3")->layer(1).rope == -1);
  CheckRefused("no_rope_layers", "[0]", "smollm3");
  CHECK(ParseWith("rope_local_base_freq", "500", "gemma3_text")->ropes[1].theta == 500);
  CHECK(ParseWith("sliding_window_pattern", "2", "gemma3_text")->layer(0).rope == 1);
  CheckRefused("attn_logit_softcapping", "50.0", "gemma3_text");
  CheckRefused("hidden_activation", "\"gelu\"", "gemma2");
  CheckRefused("num_experts_per_tok", "1000", "qwen3_moe");
  CheckRefused("num_experts", "1000000000", "qwen3_moe");
  CheckRefused("num_local_experts", "1000000000", "gpt_oss");
}

TEST_CASE("a family's defaults are those of transformers where config.json says nothing") {
  CHECK(ParseWith("head_dim", "null", "qwen3")->head_dim == 6);
  CHECK(TinyConfig("gemma2").attention_softcap == 50);
  CHECK(ParseWith("attn_logit_softcapping", "null", "gemma2")->attention_softcap == 0);
  CHECK(TinyConfig("gemma2").layer(0).window == 4096);
  CHECK(TinyConfig("gemma2").layer(1).window == 0);
  CHECK(TinyConfig("gemma2").pad_token_id == 0);
  CHECK(ParseWith("pad_token_id", "null", "gemma2")->pad_token_id == -1);
  CHECK(TinyConfig("phi3").pad_token_id == -1);  // 32000 is none of 61 ids
  CHECK(TinyConfig("olmo2").rms_norm_eps == 1e-5);
}

TEST_CASE("what changes the computation in a way that is not there is refused by name") {
  CheckRefused("hidden_act", "\"gelu\"");
  CheckRefused("attention_dropout", "1.1");
  CheckRefused("quantization_config", R"({"bits": 4})");
  CheckRefused("use_sliding_window", "true", "llama");
  CheckRefused("sliding_window", "4096");
  CheckRefused("layer_types", R"(["full_attention", "sliding_attention"])", "qwen2");
  CheckRefused("layer_types", R"(["full_attention"])", "qwen2");
  CheckRefused("attention_bias", "false", "qwen2");
  CheckRefused("attention_bias", "true", "mistral");
  CheckRefused("mlp_bias", "true", "qwen2");
  for (const char* field :
       {"logit_scale", "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling",
        "final_logit_softcapping", "attn_logit_softcapping", "attention_chunk_size"}) {
    CheckRefused(field, "8.0");
  }
  for (const char* field : {"qk_norm", "use_qk_norm", "is_encoder_decoder", "alibi"}) CheckRefused(field, "true");
  CheckRefused("no_rope_layers", "[1, 0]");
  CheckRefused("num_experts", "8");
  CheckRefused("per_layer_config", R"({"1": {"hidden_act": "gelu"}})");
  CheckRefused("transformers_weights", "\"other.safetensors\"");
  CHECK(ParseWith("logit_scale", "1").ok());
  CHECK(ParseWith("logit_scale", "1.0").ok());
  CHECK(ParseWith("quantization_config", "null").ok());
}

TEST_CASE("weights that are quantised are refused by how they are, with what to do instead") {
  const auto refused = [](const std::string& quantisation) {
    const absl::Status status = ParseWith("quantization_config", quantisation).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK_THAT(refused(R"({"quant_method": "bitsandbytes", "load_in_4bit": true})"), Catch::Contains("dequantize()"));
  for (const std::string method : {"gptq", "awq", "hqq", "eetq", "aqlm", "modelopt"}) {
    CHECK_THAT(refused(absl::StrCat("{\"quant_method\": \"", method, "\"}")),
               Catch::Contains("quantised by " + method) && Catch::Contains("base_model"));
  }
  CHECK_THAT(refused(R"({"quant_method": "gptq"}, "_name_or_path": "org/original")"), Catch::Contains("org/original"));
  CHECK_THAT(refused(R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})"),
             Catch::Contains("pack-quantized"));
  CHECK_THAT(refused(R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups":
                      {"group_0": {"weights": {"type": "float", "num_bits": 4}}}})"),
             Catch::Contains("config_groups.group_0.weights"));
  CHECK_THAT(refused(R"({"quant_method": "fp8", "weight_block_size": [128, 0]})"),
             Catch::Contains("weight_block_size"));
  CHECK_THAT(refused(R"(["fp8"])"), Catch::Contains("quant_method"));
  CHECK(ParseWith("quantization_config", R"({"quant_method": "fp8", "weight_block_size": [128, 128]})").ok());
  CHECK(ParseWith("quantization_config", R"({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})").ok());
  CheckRefused("quantization", R"({"group_size": 64, "bits": 4})");
}

TEST_CASE("another model type is refused with those that are supported") {
  const absl::Status status = ParseWith("model_type", "\"gpt2\"").status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  for (const char* word : {"gpt2", "qwen2", "llama", "gpt_oss"}) CHECK(absl::StrContains(status.message(), word));
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
