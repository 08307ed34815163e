#include "libdistill/nn/encoder_heads.h"

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "libdistill/nn/encoder.h"
#include "tests/nn/tiny_encoders.h"
#include "tests/support/temp_folder.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

// With three labels that have names.
std::string NamedBert() {
  return absl::StrReplaceAll(kTinyBert, {{"\"vocab_size\"", R"("id2label": {"0": "no", "1": "yes", "2": "perhaps"},
    "architectures": ["BertForMaskedLM"], "vocab_size")"}});
}

TEST_CASE("each document has its own label, wherever in a batch it lies") {
  SequenceClassifier model(TinyEncoder(NamedBert()), /*labels=*/3);
  model.eval();
  torch::manual_seed(3);
  const Tensor ids = torch::randint(61, {2, 12}, torch::kInt64);
  const Tensor types = torch::randint(2, {2, 12}, torch::kInt64);
  const Tensor logits =
      model.forward({.input_ids = ids, .document_starts = {{0, 5, 5, 12}, {0, 7}}, .token_types = types});
  REQUIRE(logits.sizes() == torch::IntArrayRef({3, 3}));
  const auto alone = [&](int64_t row, int64_t first, int64_t last) {
    const auto cut = [&](const Tensor& x) { return x[row].narrow(0, first, last - first).unsqueeze(0); };
    return model.forward({.input_ids = cut(ids), .document_starts = {}, .token_types = cut(types)})[0];
  };
  CHECK(RelativeError(logits[0], alone(0, 0, 5)) < 1e-5);
  CHECK(RelativeError(logits[1], alone(0, 5, 12)) < 1e-5);
  CHECK(RelativeError(logits[2], alone(1, 0, 7)) < 1e-5);
}

TEST_CASE("token types that a model does not have are refused") {
  SpanModel bert(TinyEncoder(NamedBert())), distilbert(TinyEncoder(kTinyDistilBert));
  const Tensor ids = torch::ones({1, 4}, torch::kInt64), zeros = torch::zeros({1, 4}, torch::kInt64);
  const auto with = [&](const Tensor& types) {
    return TokenInput{.input_ids = ids, .document_starts = {}, .token_types = types};
  };
  CHECK_THROWS_WITH(distilbert.forward(with(ids)), Catch::Contains("no embedding of token types"));
  CHECK(torch::equal(distilbert.forward(with(zeros)), distilbert.forward({ids, {}})));
  CHECK(torch::equal(bert.forward(with(zeros)), bert.forward({ids, {}})));
  CHECK_FALSE(torch::equal(bert.forward(with(ids)), bert.forward({ids, {}})));
  CHECK_THROWS_WITH(bert.forward(with(ids * 2)), Catch::Contains("token type 2, but the model has 2"));
  CHECK_THROWS_WITH(bert.forward(with(ids.view({4}))), Catch::Contains("of the shape of input_ids"));
  Encoder words(TinyEncoder(NamedBert()));
  CHECK_FALSE(torch::equal(words.Hidden(with(ids)), words.Hidden({ids, {}})));
}

TEST_CASE("a classifier's labels are the config's, or those asked for, and a folder that has others is refused") {
  for (const std::string& json : {NamedBert(), std::string(kTinyDistilBert)}) {
    const testing::TempFolder folder;
    const EncoderConfig config = TinyEncoder(json);
    const int64_t of_config = json == kTinyDistilBert ? 2 : 3;
    CHECK(LabelsOf(config).value() == of_config);
    REQUIRE(Encoder(config).Save(folder.path(), "", torch::kFloat32).ok());
    CHECK(LoadClassifier(folder.path()).value()->labels() == of_config);
    const std::string saved = folder.path() + "/saved";
    const auto model = LoadClassifier(folder.path(), {.labels = 5}).value();
    CHECK(model->source_folder() == folder.path());
    REQUIRE(model->Save(saved, "", torch::kFloat32).ok());
    const auto loaded = LoadClassifier(saved).value();
    CHECK(loaded->labels() == 5);
    CHECK(LabelsOf(loaded->config()).value() == 5);
    const absl::Status other = LoadClassifier(saved, {.labels = 4}).status();
    INFO(other);
    CHECK(other.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(other.message(), "its classifier has 5 labels, not 4"));
    CHECK(LoadClassifier(saved, {.labels = -1}).status().code() == absl::StatusCode::kInvalidArgument);
    // A head that is there takes part in no other model.
    CHECK(LoadSpanModel(saved).ok());
    const absl::Status no_head = LoadEncoder(saved).status();
    CHECK(absl::StrContains(no_head.message(), "is missing"));
  }
  const EncoderConfig damaged =
      TinyEncoder(absl::StrReplaceAll(NamedBert(), {{"{\"0\": \"no\", \"1\": \"yes\", \"2\": \"perhaps\"}", "7"}}));
  CHECK(absl::StrContains(LabelsOf(damaged).status().message(), "\"id2label\""));
}

TEST_CASE("names of labels stay where there are as many") {
  const testing::TempFolder folder;
  const SequenceClassifier three(TinyEncoder(NamedBert()), 3), two(TinyEncoder(NamedBert()), 2);
  REQUIRE(three.Save(folder.path() + "/three", "", torch::kFloat32).ok());
  REQUIRE(two.Save(folder.path() + "/two", "", torch::kFloat32).ok());
  CHECK(absl::StrContains(folder.Read("three/config.json"), "perhaps"));
  CHECK(absl::StrContains(folder.Read("three/config.json"), "BertForSequenceClassification"));
  CHECK_FALSE(absl::StrContains(folder.Read("two/config.json"), "perhaps"));
  CHECK(absl::StrContains(folder.Read("two/config.json"), "LABEL_1"));
}

TEST_CASE("a head of which a folder has but a part is an error, and no new one") {
  const testing::TempFolder folder;
  REQUIRE(SequenceClassifier(TinyEncoder(kTinyDistilBert), 2).Save(folder.path(), "", torch::kFloat32).ok());
  const std::string path = folder.path() + "/model.safetensors";
  std::map<std::string, Tensor> tensors = ReadTensors(path);
  tensors.erase("classifier.bias");
  std::map<std::string, TensorView> views;
  for (const auto& [name, tensor] : tensors) views[name] = ViewOf(tensor);
  REQUIRE(WriteSafetensors(path, views, {}).ok());
  const absl::Status status = LoadClassifier(folder.path()).status();
  INFO(status);
  CHECK(absl::StrContains(status.message(), "classifier.bias"));
}

}  // namespace
}  // namespace distill
