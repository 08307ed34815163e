#include <filesystem>
#include <string>

#include "libdistill/nn/encoder_heads.h"
#include "tests/nn/golden_models.h"
#include "tests/tensor/test_tensors.h"

// Against transformers: tests/golden/heads_golden.py made the models and says what the tensors are.
namespace distill::heads_golden {
namespace {

using torch::Tensor;
using Tensors = std::map<std::string, Tensor>;

constexpr size_t kFolders = 13;

bool IsSpan(const std::filesystem::path& folder) {
  return folder.filename().string().find("span") != std::string::npos;
}
bool IsNew(const std::filesystem::path& folder) { return folder.filename().string().rfind("new_", 0) == 0; }

TokenInput InputOf(const Tensors& golden, torch::Device device) {
  TokenInput input{golden.at("input_ids").to(device), {}};
  const Tensor& lengths = golden.at("lengths");
  for (int64_t row = 0; row < lengths.size(0); ++row)
    input.document_starts.push_back({0, lengths[row].item<int64_t>()});
  if (golden.count("token_types") > 0) input.token_types = golden.at("token_types").to(device);
  return input;
}

// 0 in the padding of spans.
template <typename Model>
Tensor Logits(Model& model, const TokenInput& input) {
  Tensor logits = model.forward(input);
  if (logits.dim() < 3) return logits;
  Tensor real = torch::zeros({logits.size(0), logits.size(1), 1}, logits.options());
  for (int64_t row = 0; row < logits.size(0); ++row) real[row].narrow(0, 0, input.document_starts[row].back()).fill_(1);
  return at::where(real.to(torch::kBool), logits, torch::zeros_like(logits));
}

// A model that is loaded with `options`, given to `use`.
template <typename Use>
void WithModel(const std::filesystem::path& folder, bool is_span, const LoadOptions& options, const Use& use) {
  const auto check = [&](const auto& model) {
    INFO(model.status());
    REQUIRE(model.ok());
    use(**model);
  };
  if (is_span) return check(LoadSpanModel(folder, options));
  check(LoadClassifier(folder, {}, options));
}

TEST_CASE("classifiers and span heads give the logits and gradients of transformers") {
  for (const auto& folder : GoldenModels("nn_heads", kFolders)) {
    if (IsNew(folder)) continue;
    const Tensors golden = ReadTensors(folder / "golden.safetensors");
    for (const torch::Device& device : TestDevices()) {
      INFO(folder.filename() << " on " << device);
      const TokenInput input = InputOf(golden, device);
      WithModel(folder / "model", IsSpan(folder), {.device = device}, [&](auto& model) {
        for (const bool checkpoints : {false, true}) {
          if (checkpoints) model.EnableGradientCheckpointing();
          const Tensor logits = Logits(model, input);
          CHECK(RelativeError(logits, golden.at("logits")) < kGoldenTolerance);
          logits.sin().sum().backward();
          CheckGradients(model, golden, "grad");
        }
      });
    }
  }
}

// Everything of one kind is dropped, which leaves nothing to chance: what is dropped where.
TEST_CASE("encoders drop in training what transformers drops, and nothing in evaluation or unasked") {
  for (const auto& folder : GoldenModels("nn_heads", kFolders)) {
    if (IsNew(folder)) continue;
    const Tensors golden = ReadTensors(folder / "golden.safetensors");
    const bool is_bert = golden.count("token_types") > 0;
    for (const std::string which : {"states", "attention", "head"}) {
      for (const torch::Device& device : TestDevices()) {
        INFO(folder.filename() << ", " << which << ", on " << device);
        const TokenInput input = InputOf(golden, device);
        EncoderConfig config = ReadEncoderConfig(folder / "model").value();
        config.hidden_dropout = which == "states";
        config.attention_dropout = which == "attention";
        config.classifier_dropout = which == "head";
        config.span_dropout = which == "head" && !is_bert;
        const auto compare = [&](auto& model, const auto& loaded) {
          const torch::NoGradGuard no_grad;
          for (const auto& parameter : loaded.named_parameters()) {
            model.named_parameters()[parameter.key()].copy_(parameter.value());
          }
          model.to(device);
          CHECK(RelativeError(Logits(model, input), golden.at("logits")) < kGoldenTolerance);
          model.EnableDropout();
          CHECK(RelativeError(Logits(model, input), golden.at(which + "_dropped")) < kGoldenTolerance);
          model.eval();
          CHECK(RelativeError(Logits(model, input), golden.at("logits")) < kGoldenTolerance);
        };
        if (IsSpan(folder)) {
          SpanModel model(config);
          compare(model, **LoadSpanModel(folder / "model"));
        } else {
          const auto loaded = LoadClassifier(folder / "model").value();
          SequenceClassifier model(config, loaded->labels());
          compare(model, *loaded);
        }
      }
    }
  }
}

// golden_nn_check_saved opens these folders with transformers.
TEST_CASE("encoders with heads are saved, those with new heads too, with the logits that they give") {
  for (const auto& folder : GoldenModels("nn_heads", kFolders)) {
    INFO(folder.filename());
    const std::string saved = folder / "saved";
    std::filesystem::remove_all(saved);
    const bool is_span = IsSpan(folder) || folder.filename() == "new_bert_masked";
    const Tensors golden = ReadTensors(folder / "golden.safetensors");
    TokenInput input = InputOf(golden, torch::kCPU);
    input.token_types = Tensor();
    WithModel(folder / "model", is_span, {}, [&](auto& model) {
      REQUIRE(model.Save(saved, folder / "model", torch::kFloat32).ok());
      const torch::NoGradGuard no_grad;
      const Tensor logits = Logits(model, input).contiguous();
      CHECK(WriteSafetensors(folder / "saved_logits.safetensors",
                             {{"input_ids", ViewOf(golden.at("input_ids"))},
                              {"lengths", ViewOf(golden.at("lengths"))},
                              {"logits", ViewOf(logits)}},
                             {})
                .ok());
      WithModel(saved, is_span, {}, [&](auto& again) { CHECK(torch::equal(Logits(again, input), logits)); });
    });
  }
}

TEST_CASE("a folder without the head gives the body, and a head from the seed") {
  for (const auto& folder : GoldenModels("nn_heads", kFolders)) {
    if (!IsNew(folder)) continue;
    INFO(folder.filename());
    const auto one = LoadClassifier(folder / "model", {.labels = 4, .seed = 1});
    INFO(one.status());
    REQUIRE(one.ok());
    CHECK((*one)->labels() == 4);
    const auto same = LoadClassifier(folder / "model", {.labels = 4, .seed = 1}, {.dtype = torch::kBFloat16}).value();
    const auto other = LoadClassifier(folder / "model", {.labels = 4, .seed = 2}).value();
    const auto of_same = same->named_parameters(), of_other = other->named_parameters();
    for (const auto& parameter : (*one)->named_parameters()) {
      INFO(parameter.key());
      CHECK(torch::equal(parameter.value().to(torch::kBFloat16), of_same[parameter.key()]));
      const bool is_drawn = parameter.key() == "classifier.weight" || parameter.key() == "pre_classifier.weight" ||
                            parameter.key() == "classifier.dense.weight" ||
                            parameter.key() == "classifier.out_proj.weight" ||
                            (parameter.key() == "bert.pooler.dense.weight" && folder.filename() == "new_bert_masked");
      CHECK(torch::equal(parameter.value(), of_other[parameter.key()]) == !is_drawn);
      if (!is_drawn) continue;
      CHECK(parameter.value().std().item<double>() == Approx(0.02).margin(0.005));
    }
  }
}

}  // namespace
}  // namespace distill::heads_golden
