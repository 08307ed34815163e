#include "libdistill/store/gguf.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/store/weights_folder.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;
using testing::gguf::Bytes;
using testing::gguf::Entry;
using testing::gguf::File;
using testing::gguf::Made;
using testing::gguf::TensorEntry;
using testing::gguf::Text;

absl::StatusOr<GgufFile> OpenBytes(const std::string& bytes) { return GgufFile::Open(MakeMemoryFile("a.gguf", bytes)); }
std::string Error(const Made& made, absl::StatusCode code = absl::StatusCode::kDataLoss) {
  const absl::Status status = OpenBytes(File(made)).status();
  INFO(status);
  CHECK(status.code() == code);
  CHECK(absl::StartsWith(status.message(), "a.gguf: "));
  return std::string(status.message());
}

TEST_CASE("metadata of every type and tensors under transformers' names are read, a head's rows in their order") {
  std::string values;
  for (int i = 0; i < 8; ++i) values += Bytes(static_cast<float>(i));
  Made made;
  made.more = {Entry("a.text", 8, Text("x")),
               Entry("a.flag", 7, std::string(1, '\1')),
               Entry("a.small", 1, Bytes<int8_t>(-3)),
               Entry("a.number", 6, Bytes(0.5F)),
               Entry("a.wide", 12, Bytes(0.25)),
               Entry("a.texts", 9, Bytes<uint32_t>(8) + Bytes<uint64_t>(2) + Text("one") + Text("")),
               Entry("a.nested", 9,
                     Bytes<uint32_t>(9) + Bytes<uint64_t>(1) + Bytes<uint32_t>(5) + Bytes<uint64_t>(2) +
                         Bytes<int32_t>(1) + Bytes<int32_t>(2)),
               Entry("llama.attention.key_length", 4, Bytes<uint32_t>(4))};
  made.tensors = {TensorEntry("blk.11.attn_k.weight", {1, 8}, 0, 0), TensorEntry("rope_freqs.weight", {2}, 0, 32),
                  TensorEntry("a.new.tensor", {2}, 0, 64)};
  made.data = values + std::string(8, '\0') + std::string(24, '\0') + std::string(8, '\0');
  const auto file = OpenBytes(File(made));
  INFO(file.status());
  REQUIRE(file.ok());
  CHECK(std::get<std::string>(file->metadata().at("a.text")) == "x");
  CHECK(std::get<bool>(file->metadata().at("a.flag")));
  CHECK(std::get<int64_t>(file->metadata().at("a.small")) == -3);
  CHECK(std::get<float>(file->metadata().at("a.number")) == 0.5F);
  CHECK(std::get<float>(file->metadata().at("a.wide")) == 0.25F);
  CHECK(std::get<GgufArray>(file->metadata().at("a.texts")).count == 2);
  CHECK(file->Find("rope_freqs.weight") != nullptr);
  CHECK_FALSE(file->is_quantised());
  CHECK(file->Find("a.new.tensor") != nullptr);  // for whoever knows the model to refuse
  const auto view = file->Load("model.layers.11.self_attn.k_proj.weight");
  REQUIRE(view.ok());
  CHECK(view->shape == std::vector<int64_t>{8, 1});
  const auto* read = static_cast<const float*>(view->data);
  CHECK(std::vector<float>(read, read + 8) == std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
}

TEST_CASE("a Gemma's norms are read without the 1 that llama.cpp adds, and Phi-3's projections under their own names") {
  Made made{
      .architecture = "gemma3",
      .tensors = {TensorEntry("output_norm.weight", {3}, 0, 0), TensorEntry("blk.0.post_ffw_norm.weight", {1}, 0, 32),
                  TensorEntry("blk.0.ffn_norm.weight", {1}, 0, 64), TensorEntry("blk.0.attn_q.weight", {1, 2}, 0, 96)}};
  made.data = Bytes(1.5F) + Bytes(0.0F) + Bytes(1.0F) + std::string(20, '\0') + Bytes(3.0F) + std::string(28, '\0') +
              Bytes(2.0F) + std::string(28, '\0') + Bytes(7.0F) + Bytes(8.0F);
  const auto file = OpenBytes(File(made));
  INFO(file.status());
  REQUIRE(file.ok());
  CHECK_FALSE(file->is_quantised());
  const auto numbers = [&](const std::string& name) {
    const auto view = file->Load(name);
    INFO(view.status());
    REQUIRE(view.ok());
    const auto* begin = static_cast<const float*>(view->data);
    return std::vector<float>(begin, begin + view->size_bytes / sizeof(float));
  };
  CHECK(numbers("model.norm.weight") == std::vector<float>{0.5F, -1, 0});
  CHECK(numbers("model.layers.0.post_feedforward_layernorm.weight") == std::vector<float>{2});
  CHECK(numbers("model.layers.0.pre_feedforward_layernorm.weight") == std::vector<float>{1});
  CHECK(numbers("model.layers.0.self_attn.q_proj.weight") == std::vector<float>{7, 8});
  made.tensors = {TensorEntry("output_norm.weight", {3}, 1, 0)};
  CHECK_THAT(Error(made, absl::StatusCode::kInvalidArgument), Catch::Contains("output_norm") && Catch::Contains("F32"));
  made = {.architecture = "phi3",
          .tensors = {TensorEntry("blk.2.attn_qkv.weight", {1}, 0, 0), TensorEntry("blk.2.ffn_up.weight", {1}, 0, 32),
                      TensorEntry("blk.2.ffn_norm.weight", {1}, 0, 64)},
          .data = std::string(68, '\0')};
  const auto phi = OpenBytes(File(made));
  REQUIRE(phi.ok());
  CHECK(phi->Find("model.layers.2.self_attn.qkv_proj.weight") != nullptr);
  CHECK(phi->Find("model.layers.2.mlp.gate_up_proj.weight") != nullptr);
  CHECK(phi->Find("model.layers.2.post_attention_layernorm.weight") != nullptr);
}

TEST_CASE("a GGUF file that is damaged or of another kind is one error that says how") {
  CHECK(absl::StrContains(OpenBytes("").status().message(), "truncated"));
  CHECK(
      absl::StrContains(OpenBytes("GGML" + std::string(40, '\0')).status().message(), "does not begin with \"GGUF\""));
  CHECK_THAT(Error({.version = 1}), Catch::Contains("version 1"));
  CHECK_THAT(Error({.version = 3U << 24}), Catch::Contains("big-endian"));
  CHECK_THAT(Error({.architecture = "mamba"}, absl::StatusCode::kInvalidArgument),
             Catch::Contains("\"mamba\" is not read; read are llama, qwen2, qwen3, gemma2, gemma3, phi3: ") &&
                 Catch::Contains("gguf_file=NAME"));
  CHECK_THAT(Error({.tensors = {TensorEntry("a", {256}, 10, 0)}}, absl::StatusCode::kInvalidArgument),
             Catch::Contains("tensor \"a\": it is Q2_K") && Catch::Contains("Q4_K_M"));
  CHECK_THAT(Error({.tensors = {TensorEntry("a", {4}, 0, 0)}}), Catch::Contains("do not lie in the file"));
  CHECK_THAT(Error({.tensors = {TensorEntry("a", {3}, 0, 4)}}), Catch::Contains("not aligned"));
  CHECK_THAT(Error({.tensors = {TensorEntry("a", {3}, 0, 320)}}), Catch::Contains("behind the file's end"));
  CHECK_THAT(Error({.tensors = {TensorEntry("a", {31}, 8, 0)}}), Catch::Contains("no multiple of the 32"));
  CHECK_THAT(Error({.tensors = {TensorEntry("a", {1ULL << 62, 8}, 0, 0)}}), Catch::Contains("overflows"));
  CHECK_THAT(Error({.tensors = {TensorEntry("a", {1, 1, 1, 1, 1}, 0, 0)}}), Catch::Contains("5 dimensions"));
  CHECK_THAT(Error({.tensors = {TensorEntry("a", {1}, 0, 0), TensorEntry("b", {1}, 0, 0)}}),
             Catch::Contains("overlap"));
  CHECK_THAT(Error({.tensors = {TensorEntry("a", {0}, 0, 0), TensorEntry("a", {1}, 0, 0)}}), Catch::Contains("twice"));
  CHECK_THAT(Error({.tensors = {TensorEntry("blk.0.attn_q.weight", {1, 3}, 0, 0)}}), Catch::Contains("no heads"));
  CHECK_THAT(Error({.more = {Entry("general.architecture", 8, Text("llama"))}}), Catch::Contains("second time"));
  CHECK_THAT(Error({.more = {Entry("x", 99, "")}}), Catch::Contains("type 99"));
  CHECK_THAT(Error({.more = {Entry("x", 9, Bytes<uint32_t>(8) + Bytes<uint64_t>(1ULL << 60))}}),
             Catch::Contains("a.gguf"));
  CHECK_THAT(Error({.more = {Entry("x", 9, Bytes<uint32_t>(0) + Bytes<uint64_t>(1ULL << 60))}}),
             Catch::Contains("elements"));
  CHECK_THAT(Error({.more = {Entry("general.alignment", 4, Bytes<uint32_t>(0))}}),
             Catch::Contains("general.alignment"));
  const std::string good = File({});
  REQUIRE(OpenBytes(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    CHECK(OpenBytes(good.substr(0, size)).status().code() == absl::StatusCode::kDataLoss);
  }
}

TEST_CASE("random changes of a GGUF file are errors or other files, and what opens can be read") {
  Made made;
  made.more = {Entry("tokenizer.ggml.tokens", 9, Bytes<uint32_t>(8) + Bytes<uint64_t>(2) + Text("a") + Text("b"))};
  made.tensors = {TensorEntry("blk.0.attn_q.weight", {32, 8}, 8, 0), TensorEntry("blk.0.ffn_up.weight", {256}, 14, 288),
                  TensorEntry("output_norm.weight", {3}, 1, 512)};
  made.data = std::string(520, '\x11');
  const std::vector<std::string> corpus = {File(made), File({})};
  REQUIRE(OpenBytes(corpus[0]).ok());
  std::mt19937_64 random(7);
  int opened = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = corpus[random() % 2];
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) testing::Mutate(random, corpus, bytes);
    const auto file = OpenBytes(bytes);
    if (!file.ok()) {
      CHECK_FALSE(absl::IsOutOfRange(file.status()));
      continue;
    }
    ++opened;
    for (const auto& [name, about] : file->tensors()) CHECK(file->Load(name).ok());
  }
  CHECK(opened > 100);
}

TEST_CASE("a folder has one GGUF model, in one file or in all of its parts") {
  const TempFolder folder;
  CHECK(GgufFilesIn(folder.path())->empty());
  CHECK_FALSE(WeightsFolder::IsIn(folder.path()));
  folder.Write("mmproj-a.gguf", "");
  CHECK(GgufFilesIn(folder.path())->empty());
  folder.Write("m-00001-of-00002.gguf", File({}));
  CHECK(absl::StrContains(GgufFilesIn(folder.path()).status().message(), "2 parts needs all"));
  Made second;
  second.tensors = {TensorEntry("output.weight", {3}, 0, 0)};
  folder.Write("m-00002-of-00002.gguf", File(second));
  CHECK(*GgufFilesIn(folder.path()) == std::vector<std::string>{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"});
  const auto weights = WeightsFolder::Open(folder.path());
  INFO(weights.status());
  REQUIRE(weights.ok());
  CHECK(weights->Names() == std::vector<std::string>{"lm_head.weight", "model.norm.weight"});
  folder.Write("m-00002-of-00002.gguf", File({}));
  CHECK(absl::StrContains(WeightsFolder::Open(folder.path()).status().message(), "is in another part"));
  folder.Write("other.gguf", File({}));
  CHECK(WeightsFolder::IsGguf(folder.path()));
  CHECK(absl::IsFailedPrecondition(WeightsFolder::Open(folder.path()).status()));
}

}  // namespace
}  // namespace distill
