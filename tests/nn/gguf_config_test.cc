#include "libdistill/nn/gguf_config.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/decoder_config.h"
#include "libdistill/nn/encoder_config.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"

namespace distill::gguf_config {
namespace {

using testing::TempFolder;
using testing::gguf::Bytes;
using testing::gguf::Entry;
using testing::gguf::File;
using testing::gguf::Made;
using testing::gguf::Number;
using testing::gguf::TensorEntry;
using testing::gguf::Text;
using Entries = std::vector<std::string>;

std::string Float(const std::string& key, float number) { return Entry(key, 6, Bytes(number)); }
std::string Word(const std::string& key, const std::string& text) { return Entry(key, 8, Text(text)); }

// A model of 8 hidden numbers and 2 heads, whose embeddings of 5 tokens are all that there is of its weights.
std::string Model(const std::string& architecture, const Entries& more, uint32_t layers = 1) {
  Made made{.architecture = architecture, .more = more};
  made.more.push_back(Number(architecture + ".block_count", layers));
  made.more.push_back(Number(architecture + ".feed_forward_length", 16));
  made.more.push_back(Float(architecture + ".attention.layer_norm_rms_epsilon", 1e-6F));
  made.more.push_back(Number(architecture + ".context_length", 64));
  made.tensors = {TensorEntry("token_embd.weight", {8, 5}, 0, 0)};
  made.data = std::string(160, '\0');
  return File(made);
}

absl::StatusOr<DecoderConfig> Read(const std::string& bytes) {
  const TempFolder folder;
  folder.Write("a.gguf", bytes);
  return ReadDecoderConfig(folder.path());
}

DecoderConfig MustRead(const std::string& bytes) {
  const auto config = Read(bytes);
  INFO(config.status());
  REQUIRE(config.ok());
  return *config;
}

std::string Refusal(const std::string& bytes) {
  const absl::Status status = Read(bytes).status();
  INFO(status);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), "/a.gguf"));
  CHECK_FALSE(absl::StrContains(status.message(), "/config.json"));
  return std::string(status.message());
}

TEST_CASE("a scaling of positions in GGUF is read, or refused by the name of its type or key") {
  const Entries yarn = {Word("qwen3.rope.scaling.type", "yarn"), Float("qwen3.rope.scaling.factor", 4),
                        Number("qwen3.rope.scaling.original_context_length", 16),
                        Entry("qwen3.rope.scaling.finetuned", 7, std::string(1, '\1')),
                        Float("qwen3.rope.scaling.yarn_beta_slow", 2)};
  const RopeConfig rope = MustRead(Model("qwen3", yarn)).ropes[0];
  CHECK(rope.type == RopeType::kYarn);
  CHECK(rope.factor == 4);
  CHECK(rope.original_length == 16);
  CHECK(rope.beta_slow == 2);
  for (const char* key : {"alpha", "yarn_attn_factor", "yarn_ext_factor", "yarn_log_multiplier", "new_kind"}) {
    Entries more = yarn;
    more.push_back(Float(absl::StrCat("qwen3.rope.scaling.", key), 1));
    CHECK_THAT(Refusal(Model("qwen3", more)), Catch::Contains(absl::StrCat("\"qwen3.rope.scaling.", key, "\": 1.0")) &&
                                                  Catch::Contains("copy the config.json of the original"));
  }
  CHECK_THAT(Refusal(Model("llama", {Word("llama.rope.scaling.type", "longrope")})),
             Catch::Contains("scaled by \"longrope\", and it has 0 of the tables rope_factors_long.weight"));
  for (const char* type : {"dynamic", "xpos", ""}) {
    CHECK_THAT(Refusal(Model("llama", {Word("llama.rope.scaling.type", type)})),
               Catch::Contains(absl::StrCat("\"llama.rope.scaling.type\": \"", type, "\"")));
  }
  CHECK_THAT(Refusal(Model("llama", {Word("llama.rope.scaling.type", "linear")})),
             Catch::Contains("no \"llama.rope.scaling.factor\""));
  CHECK_THAT(Refusal(Model("llama", {Float("llama.rope.scaling.factor", 2)})),
             Catch::Contains("\"llama.rope.scaling.factor\": 2.0"));
  CHECK_THAT(Refusal(Model("llama", {Float("llama.rope.scaling.attn_factor", 1.5)})),
             Catch::Contains("\"llama.rope.scaling.attn_factor\": 1.5"));
  CHECK_THAT(Refusal(Model("llama", {Float("llama.rope.scale_linear", 2)})),
             Catch::Contains("\"llama.rope.scale_linear\": 2.0"));
  CHECK_THAT(Refusal(Model("llama", {Word("llama.rope.scaling.type", "yarn"), Word("llama.rope.scaling.factor", "2")})),
             Catch::Contains("\"llama.rope.scaling.factor\": \"2\""));
  for (const Entries& nothing :
       {Entries{Word("llama.rope.scaling.type", "none"), Float("llama.rope.scaling.factor", 1)},
        Entries{Float("llama.rope.scale_linear", 1), Float("llama.rope.scaling.attn_factor", 1)}}) {
    CHECK(MustRead(Model("llama", nothing)).ropes[0].type == RopeType::kDefault);
  }
}

TEST_CASE("what a GGUF's model computes otherwise is refused by the name of its key") {
  for (const auto& [architecture, key] :
       {std::pair("llama", "expert_count"), std::pair("llama", "attention.sliding_window"),
        std::pair("qwen2", "attention.sliding_window"), std::pair("qwen3", "final_logit_softcapping"),
        std::pair("llama", "attention.scale"), std::pair("llama", "residual_scale"),
        std::pair("gemma3", "attn_logit_softcapping"), std::pair("qwen2", "attention.temperature_scale")}) {
    const std::string name = absl::StrCat(architecture, ".", key);
    CHECK_THAT(Refusal(Model(architecture, {Number(name, 4)})), Catch::Contains(absl::StrCat("\"", name, "\": 4")));
  }
  const std::string array = Bytes<uint32_t>(4) + Bytes<uint64_t>(2) + Bytes<uint32_t>(1) + Bytes<uint32_t>(2);
  CHECK_THAT(Refusal(Model("qwen2", {Entry("qwen2.rope.dimension_sections", 9, array)})),
             Catch::Contains("\"qwen2.rope.dimension_sections\": \"an array of 2\""));
  CHECK_THAT(Refusal(Model("gemma3", {Number("gemma3.attention.sliding_window", 4),
                                      Entry("gemma3.attention.sliding_window_pattern", 9, array)})),
             Catch::Contains("\"gemma3.attention.sliding_window_pattern\": \"an array of 2\""));
  CHECK_THAT(Refusal(Model("phi3", {})), Catch::Contains("no single \"phi3.attention.sliding_window\""));
  CHECK_THAT(Refusal(Model("llama", {Number("llama.rope.dimension_count", 5)})),
             Catch::Contains("\"llama.rope.dimension_count\": 5 for heads of 4"));
}

TEST_CASE("a Gemma's scale, caps and windows are those that llama.cpp takes where its file does not say them") {
  DecoderConfig config = MustRead(Model("gemma2", {Number("gemma2.attention.key_length", 16)}, 2));
  CHECK(config.attention_scale == 0.25);
  CHECK(config.attention_softcap == 50);
  CHECK(config.logit_softcap == 30);
  CHECK(config.layer(0).window == 4096);
  CHECK(config.layer(1).window == 0);
  CHECK(config.ropes[0].theta == 10000);
  // Of the largest ones, hidden_size / heads.
  for (const auto& [architecture, layers] : {std::pair("gemma2", 46), std::pair("gemma3", 62)}) {
    config = MustRead(Model(architecture, {Number(absl::StrCat(architecture, ".attention.key_length"), 16)}, layers));
    CHECK(config.attention_scale == 0.5);
  }
  config = MustRead(Model("gemma3", {Number("gemma3.attention.sliding_window", 32)}, 7));
  CHECK(config.layer(4).window == 32);
  CHECK(config.layer(4).rope == 1);
  CHECK(config.layer(5).window == 0);
  CHECK(config.layer(6).window == 32);
  CHECK(config.ropes[1].theta == 10000);
  CHECK(config.logit_softcap == 0);
  config = MustRead(Model("gemma3", {}, 2));  // a model of one kind of layers
  CHECK(config.layer(0).window == 0);
  config = MustRead(Model("gemma3",
                          {Number("gemma3.attention.sliding_window", 32), Float("gemma3.rope.freq_base_swa", 500),
                           Number("gemma3.attention.sliding_window_pattern", 2)},
                          2));
  CHECK(config.layer(0).window == 32);
  CHECK(config.layer(1).window == 0);
  CHECK(config.ropes[1].theta == 500);
}

TEST_CASE("errors of a GGUF model without a config.json name its file") {
  CHECK_THAT(Refusal(Model("llama", {Number("llama.attention.head_count_kv", 3)})),
             Catch::Contains("/a.gguf as a config.json: ") && Catch::Contains("num_key_value_heads"));
  const TempFolder folder;
  const std::string path = folder.Write("a.gguf", Model("llama", {}));
  const auto error = [&] {
    const absl::Status status = LoadDecoder(folder.path(), {.dequantise = true}).status();
    CHECK_FALSE(absl::StrContains(status.message(), "/config.json"));
    return std::string(status.message());
  };
  CHECK_THAT(error(), Catch::Contains(folder.path()) && Catch::Contains("is missing from its weights"));
  Made made{.more = {Number("llama.block_count", 0), Number("llama.feed_forward_length", 16),
                     Float("llama.attention.layer_norm_rms_epsilon", 1e-6F)},
            .tensors = {TensorEntry("token_embd.weight", {8, 5}, 0, 0), TensorEntry("output_norm.weight", {3}, 0, 160)},
            .data = std::string(320, '\0')};
  folder.Write("a.gguf", File(made));
  CHECK_THAT(error(), Catch::Contains("num_hidden_layers"));
  made.more[0] = Number("llama.block_count", 1);
  folder.Write("a.gguf", File(made));
  CHECK_THAT(error(), Catch::Contains("is missing from its weights"));
  // A norm of another size, and a tensor that no such model has.
  made.tensors = {TensorEntry("token_embd.weight", {8, 5}, 0, 0)};
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    uint64_t bytes = 4;
    for (const uint64_t size : shape) bytes *= size;
    made.data.resize((made.data.size() + 31) / 32 * 32);
    made.tensors.push_back(TensorEntry(name, std::move(shape), 0, made.data.size()));
    made.data += std::string(bytes, '\0');
  };
  made.data = std::string(160, '\0');
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
    add(absl::StrCat("blk.0.", name, ".weight"), {8, 8});
  for (const char* name : {"ffn_gate", "ffn_up"}) add(absl::StrCat("blk.0.", name, ".weight"), {8, 16});
  add("blk.0.ffn_down.weight", {16, 8});
  for (const char* name : {"blk.0.attn_norm", "blk.0.ffn_norm"}) add(absl::StrCat(name, ".weight"), {8});
  const Made before = made;
  add("output_norm.weight", {3});
  folder.Write("a.gguf", File(made));
  CHECK_THAT(error(), Catch::Contains(path + ": ") && Catch::Contains("but " + path + " asks for [8]"));
  made = before;
  add("output_norm.weight", {8});
  folder.Write("a.gguf", File(made));
  CHECK(LoadDecoder(folder.path()).ok());
  add("blk.0.attn_sinks.weight", {2});
  folder.Write("a.gguf", File(made));
  CHECK_THAT(error(), Catch::Contains(path + ": tensor \"blk.0.attn_sinks.weight\"") &&
                          Catch::Contains("is none of a llama model of " + path));
  // Another architecture, for whichever model; a file in place of its folder; two models.
  folder.Write("a.gguf", File({.architecture = "bert"}));
  for (const absl::Status& status :
       {ReadDecoderConfig(folder.path()).status(), ReadEncoderConfig(folder.path()).status()}) {
    CHECK_THAT(std::string(status.message()),
               Catch::StartsWith(path + ": ") && Catch::Contains("\"bert\" is not read; read are llama"));
  }
  CHECK_THAT(std::string(LoadDecoder(path).status().message()), Catch::Contains(path + " is a file"));
  CHECK_THAT(std::string(CheckModelFolder(path).message()), Catch::Contains(path + " is a file"));
  folder.Write("b.gguf", File({}));
  CHECK_THAT(error(), Catch::Contains("a.gguf, b.gguf"));
}

TEST_CASE("random changes of a GGUF file's metadata are configs or errors") {
  const std::vector<std::string> corpus = {
      Model("gemma3", {Number("gemma3.attention.sliding_window", 4), Number("gemma3.rope.dimension_count", 4),
                       Number("gemma3.attention.sliding_window_pattern", 2)}),
      Model("qwen3", {Word("qwen3.rope.scaling.type", "yarn"), Float("qwen3.rope.scaling.factor", 2),
                      Number("qwen3.attention.key_length", 4)})};
  for (const std::string& good : corpus) MustRead(good);
  const TempFolder folder;
  std::mt19937_64 random(7);
  int read = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = corpus[random() % 2];
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) testing::Mutate(random, corpus, bytes);
    folder.Write("a.gguf", bytes);
    const auto config = ReadDecoderConfig(folder.path());
    read += config.ok() ? 1 : 0;
    if (!config.ok()) CHECK(absl::StrContains(config.status().message(), "/a.gguf"));
  }
  CHECK(read > 100);
}

TEST_CASE("a GGUF model without a tokenizer beside it says whose to copy") {
  const TempFolder folder;
  const auto error = [&](const Entries& more) {
    folder.Write("a.gguf", Model("llama", more));
    const absl::Status status = CheckGgufTokenizer(folder.path());
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(absl::StrContains(status.message(), folder.path() + " has no tokenizer beside a.gguf"));
    return std::string(status.message());
  };
  CHECK_THAT(error({}),
             Catch::Contains("copy tokenizer.json and tokenizer_config.json of the model that it was made from"));
  CHECK_THAT(error({Word("general.name", "Tiny")}), Catch::Contains("of Tiny (by the file's general.name)"));
  CHECK_THAT(error({Word("general.name", "Tiny"), Word("general.base_model.0.repo_url", "org/tiny")}),
             Catch::Contains("of org/tiny"));
  folder.Write("tokenizer.json", "{}");
  CHECK(CheckGgufTokenizer(folder.path()).ok());
  folder.Write("b.gguf", "");  // two models: no tokenizer's error
  CHECK(CheckGgufTokenizer(folder.path()).ok());
}

}  // namespace
}  // namespace distill::gguf_config
