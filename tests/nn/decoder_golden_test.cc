#include <filesystem>
#include <numeric>
#include <string>

#include <torch/nn/functional/loss.h>

#include "libdistill/nn/decoder.h"
#include "libdistill/nn/generate.h"
#include "tests/nn/golden_models.h"
#include "tests/tensor/test_tensors.h"

// Against transformers: tests/golden/nn_golden.py made the models and says what the tensors are.
namespace distill {
namespace {

using torch::Tensor;
using Tensors = std::map<std::string, Tensor>;

constexpr size_t kModels = 43;

std::shared_ptr<Decoder> Load(const std::string& folder, torch::Device device) {
  auto model = LoadDecoder(folder, {.dtype = torch::kFloat32, .device = device});
  INFO(model.status());
  REQUIRE(model.ok());
  return *model;
}

Tensor Logits(Decoder& model, const TokenInput& input) {
  const Tensor logits = model.Hidden(input).matmul(model.head_weight().t());
  const double cap = model.logit_softcap();
  return cap > 0 ? torch::tanh(logits / cap) * cap : logits;
}

Tensor NextTokenLoss(const Tensor& logits, const Tensor& ids) {
  const int64_t last = ids.size(1) - 1;
  if (last == 0) return logits.sum() * 0;
  return torch::nn::functional::cross_entropy(logits.narrow(1, 0, last).reshape({-1, logits.size(2)}),
                                              ids.narrow(1, 1, last).reshape({-1}),
                                              torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

void CheckPlainRows(Decoder& model, const Tensors& golden, torch::Device device) {
  const Tensor ids = golden.at("input_ids").to(device);
  const Tensor logits = Logits(model, {ids, {}});
  CHECK(RelativeError(logits, golden.at("logits")) < kGoldenTolerance);
  NextTokenLoss(logits, ids).backward();
  CheckGradients(model, golden, "grad");
}

// Of the rows' last tokens, and of some others.
void CheckLayers(Decoder& model, const Tensors& golden, torch::Device device) {
  const torch::NoGradGuard no_grad;
  const Tensor ids = golden.at("input_ids").to(device), expected = golden.at("hidden_states");
  const Tensor positions = torch::tensor({3, 17, 39, 79, 90, 119}, torch::kInt64).to(device);
  std::vector<int64_t> layers(model.num_layers() + 1);
  std::iota(layers.begin(), layers.end(), 0);
  const LayerStates states = model.StatesAt({ids, {}}, positions, layers);
  REQUIRE(expected.size(0) == model.num_layers() + 1);
  for (const int64_t layer : layers) {
    INFO("layer " << layer);
    const Tensor wanted = expected[layer].flatten(0, 1).index_select(0, positions.to(torch::kCPU));
    CHECK(RelativeError(states.layers[layer], wanted) < kGoldenTolerance);
  }
  CHECK(torch::equal(states.layers.back(), states.last));
}

void CheckPackedRows(Decoder& model, const Tensors& golden, torch::Device device) {
  TokenInput input{golden.at("packed_ids").to(device), {}};
  const Tensor starts = golden.at("packed_starts");
  for (int64_t row = 0; row < starts.size(0); ++row) {
    std::vector<int64_t>& borders = input.document_starts.emplace_back();
    for (int64_t i = 0; i < starts.size(1) && starts[row][i].item<int64_t>() >= 0; ++i) {
      borders.push_back(starts[row][i].item<int64_t>());
    }
  }
  const Tensor logits = Logits(model, input);
  Tensor loss = torch::zeros({}, device), documents = torch::zeros_like(logits);
  for (int64_t row = 0; row < starts.size(0); ++row) {
    const auto& borders = input.document_starts[row];
    for (size_t i = 0; i + 1 < borders.size(); ++i) {
      const auto piece = [&](const Tensor& x) {
        return x.narrow(0, row, 1).narrow(1, borders[i], borders[i + 1] - borders[i]);
      };
      if (borders[i] == borders[i + 1]) continue;
      piece(documents).copy_(piece(logits.detach()));
      loss = loss + NextTokenLoss(piece(logits), piece(input.input_ids));
    }
  }
  CHECK(RelativeError(documents, golden.at("packed_logits")) < kGoldenTolerance);
  loss.backward();
  CheckGradients(model, golden, "packed_grad");
}

void CheckAnswers(Decoder& model, const Tensors& golden) {
  const auto rows = [](const Tensor& ids) {
    std::vector<std::vector<int32_t>> result;
    for (int64_t i = 0; i < ids.size(0); ++i) {
      const Tensor row = ids[i].contiguous();
      result.emplace_back(row.const_data_ptr<int64_t>(), row.const_data_ptr<int64_t>() + row.numel());
    }
    return result;
  };
  CHECK(Generate(model, rows(golden.at("prompts")), {.max_new_tokens = 64, .stop_ids = {}}) ==
        rows(golden.at("answers")));
}

TEST_CASE("logits, gradients of every parameter and greedy answers are those of transformers") {
  for (const auto& folder : GoldenModels("nn", kModels)) {
    const Tensors golden = ReadTensors(folder / "golden.safetensors");
    for (const torch::Device& device : TestDevices()) {
      INFO(folder.filename() << " on " << device);
      const auto model = Load(folder / "model", device);
      CheckPlainRows(*model, golden, device);
      CheckLayers(*model, golden, device);
      CheckPackedRows(*model, golden, device);
      CheckAnswers(*model, golden);
    }
  }
}

// golden_nn_check_saved opens these folders with transformers.
TEST_CASE("models are saved, half of them in bfloat16, with the logits that they give") {
  bool narrow = false;
  for (const auto& folder : GoldenModels("nn", kModels)) {
    narrow = !narrow;
    const std::string saved = folder / "saved";
    std::filesystem::remove_all(saved);
    const auto model = Load(folder / "model", torch::kCPU);
    REQUIRE(model->Save(saved, folder / "model", narrow ? torch::kBFloat16 : torch::kFloat32).ok());
    const torch::NoGradGuard no_grad;
    const Tensor ids = ReadTensors(folder / "golden.safetensors").at("input_ids");
    const Tensor logits = Logits(*Load(saved, torch::kCPU), {ids, {}}).contiguous();
    CHECK(WriteSafetensors(folder / "saved_logits.safetensors",
                           {{"input_ids", ViewOf(ids)}, {"logits", ViewOf(logits)}}, {})
              .ok());
  }
}

}  // namespace
}  // namespace distill
