#include "libdistill/nn/adapters.h"

#include <cmath>

#include "absl/strings/match.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/dropout.h"
#include "tests/nn/tiny_models.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using torch::Tensor;

std::vector<std::string> Adapted(const AdapterOptions& options, absl::Status& status) {
  Decoder model(TinyConfig());
  status = AddAdapters(options, model);
  std::vector<std::string> names;
  for (const auto& item : AdapterTensors(model)) {
    if (absl::StrContains(item.key(), "lora_A")) names.push_back(item.key());
  }
  return names;
}

TEST_CASE("adapters stand beside the matrices that are named") {
  absl::Status status;
  CHECK(Adapted({}, status).size() == 4);  // q_proj and v_proj of two blocks
  CHECK(Adapted({.targets = "all-linear"}, status).size() == 14);
  CHECK(Adapted({.targets = "layers.1.self_attn.k_proj,down_proj"}, status) ==
        std::vector<std::string>{"base_model.model.model.layers.0.mlp.down_proj.lora_A.weight",
                                 "base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight",
                                 "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight"});
  REQUIRE(status.ok());
  for (const std::string target : {"lm_head", "embed_tokens", "proj", "input_layernorm", "q_proj,w_proj"}) {
    CHECK(Adapted({.targets = target}, status).empty());
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj"));
  }
  Decoder model(TinyConfig());
  REQUIRE(AddAdapters({}, model).ok());
  CHECK(AddAdapters({}, model).code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE(
    "an adapter's first values are PEFT's: A uniform within the root of its inputs, B zero, equal for equal seeds") {
  Decoder one(TinyConfig()), same(TinyConfig()), other(TinyConfig());
  REQUIRE(AddAdapters({.targets = "all-linear", .seed = 1}, one).ok());
  REQUIRE(AddAdapters({.targets = "all-linear", .seed = 1}, same).ok());
  REQUIRE(AddAdapters({.targets = "all-linear", .seed = 2}, other).ok());
  const auto values = AdapterTensors(one);
  for (const auto& item : values) {
    INFO(item.key());
    const Tensor& value = item.value();
    CHECK(value.equal(AdapterTensors(same)[item.key()]));
    if (absl::StrContains(item.key(), "lora_B")) {
      CHECK(value.abs().sum().item<double>() == 0);
      continue;
    }
    const double bound = 1 / std::sqrt(static_cast<double>(value.size(1)));
    CHECK(value.abs().max().item<double>() <= bound);
    CHECK(value.abs().max().item<double>() > 0.9 * bound);
    CHECK_FALSE(value.equal(AdapterTensors(other)[item.key()]));
  }
}

TEST_CASE("what is dropped before an adapter is what dropout drops, and its gradients are autograd's") {
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    const Tensor x = torch::randn({37, 24}).to(type), weight = torch::randn({5, 24}).to(type),
                 g = torch::randn({37, 5}).to(type);
    const auto take = [&](const auto& product) {
      const Tensor x_leaf = x.clone().requires_grad_(), weight_leaf = weight.clone().requires_grad_();
      torch::manual_seed(3);
      const Tensor result = product(x_leaf, weight_leaf);
      result.backward(g);
      return std::vector<Tensor>{result.detach(), x_leaf.grad(), weight_leaf.grad()};
    };
    const auto ours = take([](const Tensor& a, const Tensor& b) { return LinearOfDropped(a, b, 0.3); });
    const auto theirs = take([](const Tensor& a, const Tensor& b) { return at::linear(Dropout(a, 0.3), b); });
    for (size_t i = 0; i < ours.size(); ++i)
      CHECK(torch::allclose(ours[i], theirs[i], 1e-3, type == torch::kFloat32 ? 1e-5 : 0.1));
    CHECK(ours[1].eq(0).sum().item<int64_t>() == theirs[1].eq(0).sum().item<int64_t>());
  }
}

}  // namespace
}  // namespace distill
