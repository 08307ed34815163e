#include "libdistill/tensor/failed_pass.h"

#include <limits>

#include <torch/nn/modules/linear.h>

#include "tests/support/catch.h"

namespace distill {
namespace {

struct Layers : torch::nn::Module {
  Layers() {
    up = register_module("up", torch::nn::Linear(4, 8));
    down = register_module("down", torch::nn::Linear(8, 4));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor mask = torch::full({8}, -std::numeric_limits<float>::infinity());
    const torch::Tensor hidden = up(x) + mask.masked_fill(mask < 0, 0);
    return down(hidden).exp();
  }
  torch::nn::Linear up = nullptr, down = nullptr;
};

TEST_CASE("the first module whose output is not finite is named, with the operation") {
  const torch::NoGradGuard no_grad;
  Layers layers;
  const auto found = [&](const torch::Tensor& x) { return FirstNonFinite(layers, [&] { layers.forward(x); }); };
  CHECK(found(torch::ones({2, 4})).empty());
  layers.down->bias[1] = 1000;
  CHECK(found(torch::ones({2, 4})) == "first in the output of down (aten::exp)");
  layers.down->weight[1][1] = std::numeric_limits<float>::quiet_NaN();
  CHECK(found(torch::ones({2, 4})) == "first in the weights of down (aten::addmm)");
  layers.up->weight.fill_(std::numeric_limits<float>::max());
  CHECK(found(torch::ones({2, 4})) == "first in the output of up (aten::addmm)");
  CHECK(found(torch::full({2, 4}, std::numeric_limits<float>::quiet_NaN())) ==
        "first in what is given to up (aten::addmm)");
}

TEST_CASE("the module whose operation throws is named, with the operation") {
  Layers layers;
  const auto where = [&](auto&& pass) { return WhereItThrows(layers, pass); };
  CHECK(where([&] { layers.forward(torch::ones({2, 5})); }) == "in up (aten::addmm)");
  CHECK(where([&] { layers.forward(torch::ones({2, 4})) + torch::ones({3}); }) == "in down (aten::add)");
  CHECK(where([&] { layers.forward(torch::ones({2, 4})); }).empty());
  CHECK(where([] { throw std::runtime_error("no operation"); }) == "in the pass");
}

TEST_CASE("the search leaves nothing behind") {
  Layers layers;
  CHECK_THROWS(FirstNonFinite(layers, [] { throw std::runtime_error("the pass fails"); }));
  CHECK(std::isinf(torch::full({1}, 1000.0F).exp().item<float>()));
  CHECK(FirstNonFinite(layers, [] {}).empty());
}

}  // namespace
}  // namespace distill
