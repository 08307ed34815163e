#include "libdistill/nn/encoder.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/nn/tiny_encoders.h"
#include "tests/support/temp_folder.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

absl::Status ParseEncoderWith(const std::string& json, const std::string& field) {
  return ParseEncoderConfig(absl::StrReplaceAll(json, {{"\"vocab_size\"", absl::StrCat(field, ", \"vocab_size\"")}}),
                            "models/x/config.json")
      .status();
}

std::vector<Tensor> GradientsOf(Encoder& model, const TokenInput& input) {
  model.HeadInput(model.Hidden(input).flatten(0, 1)).sin().sum().backward();
  std::vector<Tensor> gradients;
  for (Tensor& parameter : model.parameters()) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : Tensor());
    parameter.mutable_grad().reset();
  }
  return gradients;
}

TEST_CASE("an encoder's config is refused, by file and field, where it asks for another computation") {
  const std::vector<std::string> of_both = {R"("is_decoder": true)", R"("tie_word_embeddings": false)",
                                            R"("position_embedding_type": "relative_key")"};
  for (const std::string json : {kTinyBert, kTinyDistilBert, kTinyRoberta}) {
    for (const std::string& field : of_both) {
      const absl::Status status = ParseEncoderWith(json, field);
      INFO(status);
      CHECK(status.code() == absl::StatusCode::kInvalidArgument);
      CHECK(absl::StartsWith(status.message(), "models/x/config.json"));
      CHECK(absl::StrContains(status.message(), field.substr(0, field.find(':'))));
    }
  }
  CHECK(absl::StrContains(ParseEncoderWith(kTinyBert, R"("hidden_act": "gelu_new")").message(), "\"hidden_act\""));
  CHECK(absl::StrContains(ParseEncoderWith(kTinyDistilBert, R"("activation": "relu")").message(), "\"activation\""));
  CHECK(absl::StrContains(ParseEncoderWith(kTinyDistilBert, R"("sinusoidal_pos_embds": true)").message(),
                          "sinusoidal_pos_embds"));
  CHECK(ParseEncoderWith(kTinyBert, R"("hidden_act": "gelu")").ok());
  const auto other = ParseEncoderConfig(R"({"model_type": "qwen2"})", "x");
  CHECK(absl::StrContains(other.status().message(), "supported are \"bert\", \"distilbert\" and \"roberta\""));
  const auto heads =
      ParseEncoderConfig(absl::StrReplaceAll(kTinyBert, {{"\"hidden_size\": 24", "\"hidden_size\": 25"}}), "x");
  CHECK(absl::StrContains(heads.status().message(), "no multiple of \"num_attention_heads\""));
}

TEST_CASE("an encoder that is saved is loaded again, bit for bit, without what takes no part") {
  for (const std::string json : {kTinyBert, kTinyDistilBert, kTinyRoberta}) {
    const testing::TempFolder folder;
    folder.Write("vocab.txt", "[PAD]\n");
    const Encoder model(TinyEncoder(json), /*seed=*/3);
    const std::string saved = folder.path() + "/saved";
    REQUIRE(model.Save(saved, folder.path(), torch::kFloat32).ok());
    CHECK(folder.Read("saved/vocab.txt") == "[PAD]\n");
    const auto loaded = LoadEncoder(saved);
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    CHECK((*loaded)->source_folder() == saved);
    const auto parameters = (*loaded)->named_parameters();
    CHECK(parameters.size() == model.named_parameters().size());
    for (const auto& parameter : model.named_parameters()) {
      CHECK(torch::equal(parameters[parameter.key()], parameter.value()));
    }
    const auto made = CreateEncoder(saved, /*seed=*/3);
    REQUIRE(made.ok());
    CHECK(torch::equal((*made)->head_weight(), model.head_weight()));
    CHECK(model.head_weight()[model.config().pad_token_id].abs().max().item<float>() == 0);
  }
}

TEST_CASE("a tied head of another value is named") {
  const testing::TempFolder folder;
  const Encoder model(TinyEncoder(kTinyBert));
  REQUIRE(model.Save(folder.path(), "", torch::kFloat32).ok());
  const std::string path = folder.path() + "/model.safetensors";
  std::map<std::string, Tensor> tensors = ReadTensors(path);
  tensors["cls.predictions.decoder.bias"] = torch::ones({61});
  std::map<std::string, TensorView> views;
  for (const auto& [name, tensor] : tensors) views[name] = ViewOf(tensor);
  REQUIRE(WriteSafetensors(path, views, {}).ok());
  const absl::Status status = LoadEncoder(folder.path()).status();
  INFO(status);
  CHECK(absl::StrContains(status.message(), "cls.predictions.decoder.bias"));
}

TEST_CASE("with checkpoints an encoder's gradients are the same bits") {
  for (const torch::Device& device : TestDevices()) {
    Encoder plain(TinyEncoder(kTinyBert)), checkpointed(TinyEncoder(kTinyBert));
    for (Encoder* model : {&plain, &checkpointed}) model->to(device);
    checkpointed.EnableGradientCheckpointing();
    torch::manual_seed(5);
    const Tensor ids = torch::randint(61, {3, 32}, torch::kInt64).to(device);
    const TokenInput input = {ids, {{0, 5, 6, 20, 32}, {0, 32}, {0, 13, 13, 27}}};
    const std::vector<Tensor> expected = GradientsOf(plain, input), actual = GradientsOf(checkpointed, input);
    REQUIRE(expected.size() == actual.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      INFO(plain.named_parameters()[i].key() << " on " << device);
      REQUIRE(expected[i].defined() == actual[i].defined());
      if (expected[i].defined()) CHECK(torch::equal(expected[i], actual[i]));
    }
  }
}

TEST_CASE("a document that is longer than the positions is refused with both numbers") {
  Encoder model(TinyEncoder(kTinyDistilBert));
  CHECK_THROWS_WITH(model.Hidden({torch::zeros({1, 33}, torch::kInt64), {}}),
                    Catch::Contains("33") && Catch::Contains("32"));
  CHECK(model.Hidden({torch::zeros({1, 33}, torch::kInt64), {{0, 20, 33}}}).size(1) == 33);
  Encoder roberta(TinyEncoder(kTinyRoberta));  // of 34 positions it has no use for two
  CHECK_THROWS_WITH(roberta.Hidden({torch::zeros({1, 33}, torch::kInt64), {}}),
                    Catch::Contains("33") && Catch::Contains("32"));
  CHECK(roberta.Hidden({torch::zeros({1, 32}, torch::kInt64), {}}).size(1) == 32);
}

TEST_CASE("RoBERTa's positions need a padding token, and room behind it") {
  const auto refusal = [](const std::string& field) {
    return std::string(ParseEncoderWith(kTinyRoberta, field).message());
  };
  CHECK(absl::StrContains(refusal(R"("pad_token_id": null)"), "\"pad_token_id\": null is not supported"));
  CHECK(absl::StrContains(refusal(R"("pad_token_id": -1)"), "an id from 0 on is"));
  CHECK(absl::StrContains(refusal(R"("pad_token_id": 40)"), "\"max_position_embeddings\": 34 is not supported"));
  CHECK(refusal(R"("pad_token_id": 32)").empty());
  CHECK(TinyEncoder(kTinyRoberta).pad_token_id == 1);
}

// transformers counts positions by the ids that are no padding; a batch that is padded on the right has none else.
TEST_CASE("RoBERTa gives a document the same states alone, packed and padded, also with a padding token within it") {
  Encoder model(TinyEncoder(kTinyRoberta));
  torch::manual_seed(4);
  Tensor ids = torch::randint(2, 61, {2, 20}, torch::kInt64);
  ids[0][9] = 1;
  const Tensor packed = model.Hidden({ids, {{0, 7, 20}, {0, 12}}});
  const auto alone = [&](int64_t row, int64_t begin, int64_t end) {
    return model.Hidden({ids[row].narrow(0, begin, end - begin).unsqueeze(0), {}})[0];
  };
  CHECK(RelativeError(packed[0].narrow(0, 0, 7), alone(0, 0, 7)) < 1e-5);
  CHECK(RelativeError(packed[0].narrow(0, 7, 13), alone(0, 7, 20)) < 1e-5);
  CHECK(RelativeError(packed[1].narrow(0, 0, 12), alone(1, 0, 12)) < 1e-5);
}

}  // namespace
}  // namespace distill
