#include <filesystem>
#include <string>

#include <torch/nn/functional/loss.h>

#include "libdistill/nn/encoder.h"
#include "tests/nn/golden_models.h"
#include "tests/tensor/test_tensors.h"

// Against transformers: tests/golden/encoder_golden.py made the models and says what the tensors are.
namespace distill::encoder_golden {  // the decoders' test has the same names
namespace {

using torch::Tensor;
using Tensors = std::map<std::string, Tensor>;

std::shared_ptr<Encoder> Load(const std::string& folder, torch::Device device) {
  auto model = LoadEncoder(folder, {.dtype = torch::kFloat32, .device = device});
  INFO(model.status());
  REQUIRE(model.ok());
  return *model;
}

Tensor Logits(const Encoder& model, const Tensor& hidden) {
  return model.HeadInput(hidden.flatten(0, 1)).matmul(model.head_weight().t()).add(model.head_bias());
}

// Cross-entropy of [N, V] against the next token, in a ring, and the squares of the hidden states [N, H].
Tensor Loss(const Tensor& logits, const Tensor& hidden, const Tensor& ids) {
  const auto options = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
  return torch::nn::functional::cross_entropy(logits, ids.roll(-1, 1).flatten(), options) + hidden.square().sum();
}

void CheckPlainRows(Encoder& model, const Tensors& golden, torch::Device device) {
  const Tensor ids = golden.at("input_ids").to(device);
  const Tensor hidden = model.Hidden({ids, {}}), logits = Logits(model, hidden);
  CHECK(RelativeError(hidden, golden.at("hidden")) < kGoldenTolerance);
  CHECK(RelativeError(logits.view_as(golden.at("logits")), golden.at("logits")) < kGoldenTolerance);
  Loss(logits, hidden, ids).backward();
  CheckGradients(model, golden, "grad");
}

void CheckPackedRows(Encoder& model, const Tensors& golden, torch::Device device) {
  TokenInput input{golden.at("packed_ids").to(device), {}};
  const Tensor starts = golden.at("packed_starts");
  for (int64_t row = 0; row < starts.size(0); ++row) {
    std::vector<int64_t>& borders = input.document_starts.emplace_back();
    for (int64_t i = 0; i < starts.size(1) && starts[row][i].item<int64_t>() >= 0; ++i) {
      borders.push_back(starts[row][i].item<int64_t>());
    }
  }
  const Tensor hidden = model.Hidden(input), logits = Logits(model, hidden).view_as(golden.at("packed_logits"));
  Tensor loss = torch::zeros({}, device), documents = torch::zeros_like(logits);
  for (int64_t row = 0; row < starts.size(0); ++row) {
    const auto& borders = input.document_starts[row];
    for (size_t i = 0; i + 1 < borders.size(); ++i) {
      const auto piece = [&](const Tensor& x) { return x[row].narrow(0, borders[i], borders[i + 1] - borders[i]); };
      if (borders[i] == borders[i + 1]) continue;
      piece(documents).copy_(piece(logits.detach()));
      loss = loss + Loss(piece(logits), piece(hidden), piece(input.input_ids).unsqueeze(0));
    }
  }
  CHECK(RelativeError(documents, golden.at("packed_logits")) < kGoldenTolerance);
  loss.backward();
  CheckGradients(model, golden, "packed_grad");
}

TEST_CASE("an encoder's states, logits and gradients of every parameter are those of transformers") {
  for (const auto& folder : GoldenModels("nn_encoders", 8)) {
    const Tensors golden = ReadTensors(folder / "golden.safetensors");
    for (const torch::Device& device : TestDevices()) {
      INFO(folder.filename() << " on " << device);
      const auto model = Load(folder / "model", device);
      CheckPlainRows(*model, golden, device);
      CheckPackedRows(*model, golden, device);
      model->EnableGradientCheckpointing();
      CheckPackedRows(*model, golden, device);
    }
  }
}

// golden_nn_check_saved opens these folders with transformers.
TEST_CASE("encoders are saved, half of them in bfloat16, with the logits that they give") {
  bool narrow = false;
  for (const auto& folder : GoldenModels("nn_encoders", 8)) {
    narrow = !narrow;
    const std::string saved = folder / "saved";
    std::filesystem::remove_all(saved);
    const auto model = Load(folder / "model", torch::kCPU);
    REQUIRE(model->Save(saved, folder / "model", narrow ? torch::kBFloat16 : torch::kFloat32).ok());
    const torch::NoGradGuard no_grad;
    const Tensors golden = ReadTensors(folder / "golden.safetensors");
    const Tensor& ids = golden.at("input_ids");
    const auto loaded = Load(saved, torch::kCPU);
    const Tensor logits = Logits(*loaded, loaded->Hidden({ids, {}})).view_as(golden.at("logits")).contiguous();
    CHECK(WriteSafetensors(folder / "saved_logits.safetensors",
                           {{"input_ids", ViewOf(ids)}, {"logits", ViewOf(logits)}}, {})
              .ok());
  }
}

}  // namespace
}  // namespace distill::encoder_golden
