// Against PEFT: tests/golden/adapters_golden.py made the models and says what the tensors are.
#include <map>
#include <string>

#include <torch/nn/functional/loss.h>

#include "libdistill/nn/adapters.h"
#include "libdistill/nn/decoder.h"
#include "tests/nn/golden_models.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;
using Tensors = std::map<std::string, Tensor>;

// Those of the script.
const std::map<std::string, AdapterOptions>& Cases() {
  static const std::map<std::string, AdapterOptions> cases = {
      {"plain", {.rank = 4, .alpha = 8, .targets = "q_proj, v_proj, down_proj"}},
      {"all_linear", {.rank = 3, .alpha = 16, .is_rank_stabilised = true, .targets = "all-linear"}},
      {"usual", {}},
      {"one_layer", {.rank = 2, .alpha = 5, .targets = "layers.1.mlp.up_proj"}},
  };
  return cases;
}

Tensor Logits(Decoder& model, const Tensor& ids) { return model.Hidden({ids, {}}).matmul(model.head_weight().t()); }

void TakeGradients(Decoder& model, const Tensor& ids) {
  const int64_t last = ids.size(1) - 1;
  torch::nn::functional::cross_entropy(Logits(model, ids).narrow(1, 0, last).reshape({-1, model.head_weight().size(0)}),
                                       ids.narrow(1, 1, last).reshape({-1}),
                                       torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
      .backward();
}

void CheckCase(const std::filesystem::path& folder, AdapterOptions options) {
  INFO(folder);
  const Tensors golden = ReadTensors(folder / "golden.safetensors");
  const auto loaded = LoadDecoder(folder / "base");
  REQUIRE(loaded.ok());
  Decoder& model = **loaded;
  const Tensor& ids = golden.at("input_ids");
  TakeGradients(model, ids);
  CheckGradients(model, golden, "full_grad");

  const Tensor before = Logits(model, ids).detach();
  REQUIRE(AddAdapters(options, model).ok());
  model.eval();
  CHECK(Logits(model, ids).equal(before));  // B is zero yet
  const Tensors values = ReadTensors(folder / "adapter/adapter_model.safetensors");
  const auto ours = AdapterTensors(model);
  REQUIRE(ours.size() == values.size());
  {
    const torch::NoGradGuard no_grad;
    for (const auto& item : ours) Tensor(item.value()).copy_(values.at(item.key()));
  }
  CHECK(RelativeError(Logits(model, ids), golden.at("logits")) < kGoldenTolerance);
  TakeGradients(model, ids);
  for (const auto& item : ours) {
    INFO(item.key());
    CHECK(RelativeError(item.value().grad(), golden.at("grad." + item.key())) < kGoldenTolerance);
  }
  for (const auto& item : TensorsWithoutAdapters(model)) {
    INFO(item.key());
    CHECK_FALSE(item.value().grad().defined());
  }
  REQUIRE(model.Save(folder / "merged", "", torch::kFloat32).ok());
  options.form = AdapterForm::kAdapter;
  options.base_model = folder / "base";
  model.SetAdapters(options);
  REQUIRE(model.Save(folder / "saved_adapter", "", torch::kFloat32).ok());
  CHECK_FALSE(std::filesystem::exists(folder / "saved_adapter/config.json"));
}

TEST_CASE("adapters have the logits and gradients of PEFT, and weights all of transformers'") {
  for (const auto& [name, options] : Cases()) CheckCase(GoldenFolder() + "/adapters/" + name, options);
}

}  // namespace
}  // namespace distill
