#include <filesystem>
#include <string>

#include "libdistill/nn/decoder.h"
#include "libdistill/nn/gguf_config.h"
#include "libdistill/nn/quantised_weights.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/tensor/convert.h"
#include "tests/nn/golden_models.h"
#include "tests/support/temp_folder.h"
#include "tests/tensor/test_tensors.h"

// tests/golden/quantised_golden.py made the folders.
namespace distill::quantised_golden {
namespace {

std::shared_ptr<Decoder> Load(const std::string& folder, const LoadOptions& options) {
  auto model = LoadDecoder(folder, options);
  INFO(model.status());
  REQUIRE(model.ok());
  return *model;
}

void CheckEqual(const Decoder& model, const Decoder& golden) {
  const auto parameters = model.named_parameters();
  CHECK(parameters.size() == golden.named_parameters().size());
  for (const auto& parameter : golden.named_parameters()) {
    INFO(parameter.key());
    CHECK(torch::equal(parameters[parameter.key()], parameter.value()));
  }
}

void CheckModels(const std::string& kind, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    INFO(name);
    const std::string folder = GoldenFolder() + "/" + kind + "/" + name;
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
      const auto golden = Load(folder + "/numbers", {.dtype = dtype});
      CheckEqual(*Load(folder + "/quantised", {.dtype = dtype, .dequantise = true}), *golden);
      const auto later = Load(folder + "/quantised", {.dtype = dtype, .blocks_later = true, .dequantise = true});
      later->LoadBlocks();
      CheckEqual(*later, *golden);
    }
  }
}

TEST_CASE(
    "weights of eight bits become the numbers that torch makes of them, to the last bit, with their blocks later too") {
  CheckModels("fp8", {"tensor", "channel", "channel_float32", "compressed_block", "deepseek", "static_e5m2"});
}

void CheckEqual(const RopeConfig& made, const RopeConfig& golden) {
  CHECK(made.type == golden.type);
  CHECK(made.theta == golden.theta);
  CHECK(made.rotated == golden.rotated);
  CHECK(made.attention_factor == Approx(golden.attention_factor).epsilon(1e-7));
  CHECK(made.longest == golden.longest);
  CHECK(made.beta_fast == golden.beta_fast);
  CHECK(made.short_factors == golden.short_factors);
  CHECK(made.long_factors == golden.long_factors);
  if (golden.type == RopeType::kDefault) return;
  CHECK(made.factor == golden.factor);
  CHECK(made.original_length == golden.original_length);
}

void CheckEqual(const DecoderConfig& made, const DecoderConfig& golden) {
  // llama.cpp has no family for Mistral's models: without a window they are Llama's.
  CHECK((made.model_type == golden.model_type || (made.model_type == "llama" && golden.model_type == "mistral")));
  CHECK(made.num_attention_heads == golden.num_attention_heads);
  CHECK(made.num_key_value_heads == golden.num_key_value_heads);
  CHECK(made.head_dim == golden.head_dim);
  CHECK(made.rms_norm_eps == golden.rms_norm_eps);
  CHECK(made.tie_word_embeddings == golden.tie_word_embeddings);
  CHECK(made.attention_scale == golden.attention_scale);
  CHECK(made.attention_softcap == golden.attention_softcap);
  CHECK(made.logit_softcap == golden.logit_softcap);
  REQUIRE(made.ropes.size() == golden.ropes.size());
  for (size_t i = 0; i < made.ropes.size(); ++i) CheckEqual(made.ropes[i], golden.ropes[i]);
  REQUIRE(made.num_hidden_layers == golden.num_hidden_layers);
  for (int64_t i = 0; i < made.num_hidden_layers; ++i) {
    CHECK(made.layer(i).window == golden.layer(i).window);
    CHECK(made.layer(i).rope == golden.layer(i).rope);
  }
}

// Against those that transformers computes with the numbers.
void CheckLogits(const std::string& folder) {
  const torch::NoGradGuard no_grad;
  auto golden = ReadTensors(folder + "/logits.safetensors");
  const auto model = Load(folder + "/quantised", {.dtype = torch::kFloat32, .dequantise = true});
  torch::Tensor logits = model->Hidden({golden["input_ids"], {}}).matmul(model->head_weight().t());
  const double cap = model->logit_softcap();
  if (cap > 0) logits = torch::tanh(logits / cap) * cap;
  CHECK(RelativeError(logits, golden["logits"]) < kGoldenTolerance);
  // With the config.json that was made, which transformers then opens (quantised_golden.py).
  CHECK(model->Save(folder + "/saved", "", torch::kFloat32).ok());
}

TEST_CASE(
    "GGUF's weights are what transformers makes of them, under its names, in its order, and with its config and "
    "logits") {
  const std::vector<std::string> names = {
      "q8_0",  "q4_k_m",     "small",    "parts",        "mistral", "mistral_window_with_config",
      "qwen3", "qwen3_yarn", "gemma2",   "gemma2_parts", "gemma3",  "gemma3_linear",
      "phi3",  "phi3_part",  "phi3_long"};
  CHECK(GoldenModels("gguf", names.size()).size() == names.size());
  CheckModels("gguf", names);
  for (const std::string& name : names) {
    INFO(name);
    const std::string folder = GoldenFolder() + "/gguf/" + name;
    const auto made = ReadDecoderConfig(folder + "/quantised"), golden = ReadDecoderConfig(folder + "/numbers");
    INFO(made.status());
    REQUIRE((made.ok() && golden.ok()));
    CheckEqual(*made, *golden);
    CheckLogits(folder);
  }
}

TEST_CASE("experts of MXFP4 become the numbers that transformers makes of them, with its logits") {
  CheckModels("mxfp4", {"whole", "parts"});
  for (const std::string name : {"whole", "parts"}) {
    INFO(name);
    const std::string folder = GoldenFolder() + "/mxfp4/" + name;
    const auto golden = ReadTensors(folder + "/golden.safetensors");
    const auto model = Load(folder + "/quantised", {.dequantise = true});
    const torch::NoGradGuard no_grad;
    const torch::Tensor logits = model->Hidden({golden.at("input_ids"), {}}).matmul(model->head_weight().t());
    CHECK(RelativeError(logits, golden.at("logits")) < kGoldenTolerance);
  }
}

TEST_CASE("an MXFP4 model is no student, and its config.json must say what it is") {
  const std::string folder = GoldenFolder() + "/mxfp4/whole/";
  for (const absl::Status& refused :
       {LoadDecoder(folder + "quantised").status(), CheckTrainable(folder + "quantised")}) {
    CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(refused.message()),
               Catch::Contains("only a teacher's may be") && Catch::Contains("Mxfp4Config(dequantize=True)"));
  }
  const testing::TempFolder other;
  std::filesystem::copy(folder + "numbers/config.json", other / "config.json");
  std::filesystem::copy(folder + "quantised/model.safetensors", other / "model.safetensors");
  CHECK_THAT(std::string(LoadDecoder(other.path(), {.dequantise = true}).status().message()),
             Catch::Contains("experts.gate_up_proj_blocks") && Catch::Contains("quantization_config"));
}

TEST_CASE("a GGUF model is no student where it is quantised, and needs a tokenizer beside it") {
  const std::string folder = GoldenFolder() + "/gguf/q8_0/quantised";
  const absl::Status refused = LoadDecoder(folder).status();
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(refused.message()), Catch::Contains(folder) && Catch::Contains("gguf_file=NAME"));
  CHECK(CheckTrainable(folder).message() == refused.message());
  CHECK(CheckTrainable(GoldenFolder() + "/gguf/parts/quantised").ok());
  const absl::Status tokenizer = CheckGgufTokenizer(folder);
  CHECK(tokenizer.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(tokenizer.message()), Catch::Contains("tokenizer.json") && Catch::Contains("hub/org/tiny"));
  CHECK(CheckGgufTokenizer(GoldenFolder() + "/gguf/q8_0/numbers").ok());
}

TEST_CASE("every number of eight bits is read as its value") {
  const auto file = SafetensorsFile::Open(GoldenFolder() + "/fp8/all.safetensors");
  INFO(file.status());
  REQUIRE(file.ok());
  for (const std::string name : {"e4m3", "e5m2", "e8m0"}) {
    const auto read = file->Load(name), golden = file->Load(name + ".values");
    REQUIRE((read.ok() && golden.ok()));
    CHECK(read->dtype == DType::kBFloat16);
    const torch::Tensor values = torch::empty(read->shape), expected = torch::empty(golden->shape);
    CopyFromView(*read, values);
    CopyFromView(*golden, expected);
    CHECK(torch::equal(values, expected));
  }
}

TEST_CASE("a quantised model is refused as a student with how to convert it, and saved without its quantisation") {
  const std::string folder = GoldenFolder() + "/fp8/deepseek/quantised";
  const absl::Status refused = LoadDecoder(folder).status();
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("config.json") && Catch::Contains("fp8") && Catch::Contains("FineGrainedFP8Config"));
  const testing::TempFolder saved;
  const auto model = Load(folder, {.dequantise = true});
  REQUIRE(model->Save(saved.path(), "", torch::kFloat32).ok());
  CheckEqual(*Load(saved.path(), {}), *model);
}

}  // namespace
}  // namespace distill::quantised_golden
