#include <cmath>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/tensor/convert.h"
#include "tests/nn/tiny_models.h"
#include "tests/support/temp_folder.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

// A saved tiny model whose tensors a test may change.
class SavedModel {
 public:
  explicit SavedModel(const DecoderConfig& config = TinyConfig()) {
    REQUIRE(Decoder(config).Save(folder.path(), "", torch::kFloat32).ok());
    tensors = ReadTensors(folder.path() + "/model.safetensors");
  }
  absl::Status Load() const {
    std::map<std::string, TensorView> views;
    for (const auto& [name, tensor] : tensors) views[name] = ViewOf(tensor);
    REQUIRE(WriteSafetensors(folder.path() + "/model.safetensors", views, {}).ok());
    return LoadDecoder(folder.path()).status();
  }

  testing::TempFolder folder;
  std::map<std::string, Tensor> tensors;
};

void CheckMessage(const absl::Status& status, const std::vector<std::string>& parts) {
  INFO(status);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  for (const std::string& part : parts) CHECK(absl::StrContains(status.message(), part));
}

TEST_CASE("what is saved is loaded again, bit for bit, on every device and dtype") {
  const testing::TempFolder folder;
  const Decoder model(TinyConfig("llama"));
  REQUIRE(model.Save(folder.path(), "", torch::kFloat32).ok());
  for (const torch::Device& device : TestDevices()) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
      const auto loaded = LoadDecoder(folder.path(), {.dtype = dtype, .device = device});
      INFO(loaded.status());
      REQUIRE(loaded.ok());
      const auto parameters = (*loaded)->named_parameters();
      CHECK(parameters.size() == model.named_parameters().size());
      for (const auto& parameter : model.named_parameters()) {
        const Tensor& other = parameters[parameter.key()];
        CHECK(other.requires_grad());
        CHECK(other.device() == device);
        CHECK(torch::equal(other.cpu(), parameter.value().to(dtype)));
      }
    }
  }
}

TEST_CASE("a saved folder has the config with its dtype, and the tokenizer's files") {
  const testing::TempFolder folder;
  folder.Write("tokenizer.json", "{\"a\": 1}");
  folder.Write("merges.txt", "");
  folder.Write("notes.txt", "not a tokenizer's");
  const std::string saved = folder.path() + "/saved/student";
  REQUIRE(Decoder(TinyConfig()).Save(saved, folder.path(), torch::kBFloat16).ok());
  CHECK(absl::StrContains(folder.Read("saved/student/config.json"), R"("torch_dtype": "bfloat16")"));
  CHECK(folder.Read("saved/student/tokenizer.json") == "{\"a\": 1}");
  CHECK(std::filesystem::exists(saved + "/merges.txt"));
  CHECK_FALSE(std::filesystem::exists(saved + "/notes.txt"));
  for (const auto& [name, tensor] : ReadTensors(saved + "/model.safetensors")) {
    CHECK(tensor.scalar_type() == torch::kBFloat16);
  }
  const absl::Status again = Decoder(TinyConfig()).Save(saved, saved, torch::kFloat32);  // onto itself
  CHECK(again.ok());
  CHECK(folder.Read("saved/student/tokenizer.json") == "{\"a\": 1}");
  folder.Write("file", "");
  CHECK_FALSE(Decoder(TinyConfig()).Save(folder.path() + "/file/x", "", torch::kFloat32).ok());
}

TEST_CASE("a tensor of the wrong shape is named with both shapes and its file") {
  SavedModel saved;
  saved.tensors["model.layers.1.mlp.up_proj.weight"] = torch::zeros({40, 25});
  CheckMessage(saved.Load(), {"model.layers.1.mlp.up_proj.weight", "[40, 25]", "[40, 24]", "model.safetensors"});
}

TEST_CASE("integers, which are the weights of a quantized model, are refused by tensor and type") {
  SavedModel saved;
  saved.tensors["model.layers.1.mlp.up_proj.weight"] = torch::zeros({40, 24}, torch::kInt32);
  CheckMessage(saved.Load(), {"model.layers.1.mlp.up_proj.weight", "int32", "model.safetensors"});
}

TEST_CASE("missing and unexpected tensors are named") {
  SavedModel saved;
  const Tensor norm = saved.tensors["model.norm.weight"];
  saved.tensors.erase("model.norm.weight");
  CheckMessage(saved.Load(), {"model.norm.weight", "[24]", "missing"});
  saved.tensors["model.norm.weight"] = norm;
  saved.tensors["model.layers.2.input_layernorm.weight"] = norm;
  CheckMessage(saved.Load(), {"model.layers.2.input_layernorm.weight", "model.safetensors"});
  saved.tensors.erase("model.layers.2.input_layernorm.weight");
  saved.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch::zeros({4});
  CHECK(saved.Load().ok());
}

TEST_CASE("a tied head may be stored twice, but not differ") {
  DecoderConfig config = TinyConfig();
  config.json = absl::StrReplaceAll(config.json, {{"\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"}});
  config.tie_word_embeddings = true;
  SavedModel saved(config);
  CHECK(saved.tensors.count("lm_head.weight") == 0);
  saved.tensors["lm_head.weight"] = saved.tensors["model.embed_tokens.weight"];
  CHECK(saved.Load().ok());
  saved.tensors["lm_head.weight"] = saved.tensors["lm_head.weight"] + 1;
  CheckMessage(saved.Load(), {"lm_head.weight", "tie_word_embeddings"});
}

TEST_CASE("a config that asks for far more than the file holds takes no memory for it") {
  SavedModel saved;
  saved.folder.Write("config.json",
                     absl::StrReplaceAll(TinyConfigJson(), {{"\"vocab_size\": 61", "\"vocab_size\": 1000000000"}}));
  CheckMessage(saved.Load(), {"[61, 24]", "[1000000000, 24]"});
}

TEST_CASE("weights in files that are not read are not taken for none") {
  for (const char* name :
       {"pytorch_model-00001-of-00002.bin", "model-00001-of-00002.safetensors", "mmproj-model.gguf"}) {
    const testing::TempFolder folder;
    folder.Write("config.json", TinyConfigJson());
    folder.Write("training_args.bin", "");
    CHECK_FALSE(HasWeights(folder.path()).value());
    folder.Write(name, "");
    const absl::Status status = HasWeights(folder.path()).status();
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK_THAT(std::string(status.message()), Catch::Contains(folder.path()) && Catch::Contains(name));
  }
  CHECK(HasWeights("/nonexistent/student").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("a folder with a config alone makes a random decoder, on request and not otherwise") {
  const testing::TempFolder folder;
  folder.Write("config.json", TinyConfigJson());
  CHECK_FALSE(HasWeights(folder.path()).value());
  CHECK(LoadDecoder(folder.path()).status().code() == absl::StatusCode::kNotFound);
  const auto one = CreateDecoder(folder.path(), 1), same = CreateDecoder(folder.path(), 1);
  const auto other = CreateDecoder(folder.path(), 2, {.dtype = torch::kBFloat16});
  REQUIRE(one.ok());
  REQUIRE(same.ok());
  REQUIRE(other.ok());
  CHECK(torch::equal((*one)->head_weight(), (*same)->head_weight()));
  CHECK_FALSE(torch::equal((*one)->head_weight(), (*other)->head_weight().to(torch::kFloat32)));
  CHECK((*other)->head_weight().scalar_type() == torch::kBFloat16);
  CHECK(std::abs((*one)->head_weight().std().item<float>() - 0.2f) < 0.02f);
  const auto parameters = (*one)->named_parameters();
  CHECK(torch::equal(parameters["model.layers.0.self_attn.q_proj.bias"], torch::zeros(32)));
  CHECK(torch::equal(parameters["model.norm.weight"], torch::ones(24)));
  REQUIRE((*one)->Save(folder.path(), "", torch::kFloat32).ok());
  CHECK(HasWeights(folder.path()).value());
}

}  // namespace
}  // namespace distill
