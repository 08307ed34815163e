// The network against the same one in PyTorch (tests/golden/brain2text_golden.py).
#include "examples/brain2text/day_gru.h"

#include <ATen/ops/conv1d.h>
#include <ATen/ops/ctc_loss.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "examples/brain2text/smoothing.h"
#include "examples/brain2text/softsign.h"
#include "tests/nn/golden_models.h"
#include "tests/support/folders.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using torch::Tensor;

BrainModelOptions TinyBrain() {
  return {.n_input_features = 5,
          .n_units = 6,
          .n_layers = 3,
          .n_classes = 7,
          .patch_size = 4,
          .patch_stride = 3,
          .smooth_data = false,
          .sessions = "one,two,three"};
}

BrainModelOptions OptionsOf(const std::string& name) {
  BrainModelOptions options = TinyBrain();
  const auto smooth = [&](double deviation) {
    options.smooth_data = true;
    options.smooth_kernel_std = deviation;
  };
  const auto patches = [&](int64_t size, int64_t stride) {
    options.patch_size = size;
    options.patch_stride = stride;
  };
  if (name == "smoothed") smooth(1), patches(5, 2);
  if (name == "bins") smooth(2), patches(0, 0);
  if (name == "both_ways") smooth(1.5), patches(4, 2), options.bidirectional = true;
  if (name == "one_layer") patches(3, 3), options.n_layers = 1;
  return options;
}

void CompareWithPyTorch(const std::string& name, torch::Device device) {
  INFO(name << " on " << device);
  const auto golden = ReadTensors(GoldenFolder() + "/brain2text/" + name + ".safetensors");
  DayGru model(OptionsOf(name));
  {
    const torch::NoGradGuard no_grad;
    for (auto& item : model.named_parameters()) item.value().copy_(golden.at("model." + item.key()));
  }
  model.to(device);
  model.eval();
  const auto [log_probabilities, lengths] =
      model.forward(golden.at("features").to(device), golden.at("lengths"), golden.at("days"));
  const Tensor& expected = golden.at("log_probabilities");
  REQUIRE(log_probabilities.sizes() == expected.sizes());
  for (int64_t row = 0; row < expected.size(1); ++row) {
    const int64_t frames = lengths[row].item<int64_t>();
    CHECK(frames == FramesOf(model.options(), golden.at("lengths")[row].item<int64_t>()));
    CHECK(RelativeError(log_probabilities.select(1, row).narrow(0, 0, frames),
                        expected.select(1, row).narrow(0, 0, frames)) < kGoldenTolerance);
  }
  const Tensor ctc = at::ctc_loss(log_probabilities, golden.at("targets").to(device), lengths,
                                  golden.at("target_lengths"), /*blank=*/0, at::Reduction::Sum);
  CHECK(ctc.item<double>() == Approx(golden.at("ctc").item<double>()).epsilon(1e-5));
  ctc.backward();
  CheckGradients(model, golden, "grad");
}

TEST_CASE("a day's GRU computes what the baseline's network computes in PyTorch, and so are its gradients") {
  for (const torch::Device& device : TestDevices()) {
    for (const char* name : {"patches", "smoothed", "bins", "both_ways", "one_layer"}) CompareWithPyTorch(name, device);
  }
}

TEST_CASE("a smoothing kernel is a trimmed Gaussian that sums to 1, and refuses to be cut") {
  const std::vector<float> kernel = SmoothingKernel(2, 100).value();
  REQUIRE(kernel.size() == 9);  // exp(-25 / 8) is 0.044, times 0.2 below 0.01
  double sum = 0;
  for (const float value : kernel) sum += value;
  CHECK(sum == Approx(1));
  CHECK(kernel[4] / kernel[2] == Approx(std::exp(0.5)));
  CHECK(absl::StrContains(SmoothingKernel(2, 16).status().message(), "needs 18"));
  CHECK(absl::StrContains(SmoothingKernel(50, 1000).status().message(), "no value of such a kernel"));
}

TEST_CASE("smoothing is a convolution along time, with zeros beyond both ends, also of few bins") {
  const std::vector<float> kernel = SmoothingKernel(2, 100).value();
  const torch::Tensor weight = torch::tensor(kernel).view({1, 1, -1});
  for (const int64_t bins : {1, 3, 5, 9, 40}) {
    const torch::Tensor features = torch::randn({2, bins, 3});
    const torch::Tensor apart = features.transpose(1, 2).reshape({6, 1, bins});  // a feature of a recording each
    const torch::Tensor expected = at::conv1d(apart, weight, {}, /*stride=*/1, /*padding=*/"same");
    INFO(bins << " bins");
    for (const Tensor& smoothed : {SmoothAlongTime(features, kernel), SmoothByAdditions(features, kernel)}) {
      CHECK(RelativeError(smoothed, expected.view({2, 3, bins}).transpose(1, 2)) < 1e-5);
    }
  }
  const torch::Tensor wide = torch::randn({3, 20, 37});  // more than a vector's width, and a rest
  CHECK(RelativeError(SmoothAlongTime(wide, kernel), SmoothByAdditions(wide, kernel)) < 1e-6);
}

TEST_CASE("softsign is what tensor operations make of float64, and so is its gradient") {
  for (const auto& [type, tolerance] : {std::pair{torch::kFloat32, 1e-6}, {torch::kBFloat16, 5e-3}}) {
    for (const int64_t size : {1, 16, 37, 70001}) {
      INFO(type << ", " << size << " elements");
      const Tensor x = torch::randn({size}).mul_(3).to(type).requires_grad_();
      const Tensor exact = x.detach().to(torch::kFloat64).requires_grad_();
      const Tensor actual = Softsign(x), expected = PlainSoftsign(exact), gradient = torch::randn({size}).to(type);
      CHECK(RelativeError(actual.to(torch::kFloat64), expected) < tolerance);
      const Tensor of_x = torch::autograd::grad({actual}, {x}, {gradient})[0];
      const Tensor wanted = torch::autograd::grad({expected}, {exact}, {gradient.to(torch::kFloat64)})[0];
      CHECK(RelativeError(of_x.to(torch::kFloat64), wanted) < tolerance);
    }
  }
  CHECK(Softsign(torch::tensor({-3.0, 0.0, 1.0})).equal(torch::tensor({-0.75, 0.0, 0.5})));
}

TEST_CASE("patches are windows of bins, and so are their gradients, whether they overlap, touch or leave gaps") {
  for (const auto& [size, stride] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {4, 1}, {5, 2}, {3, 3}, {2, 5}}) {
    for (const int64_t bins : {size, size + 1, int64_t{17}}) {
      INFO("patches of " << size << " every " << stride << " of " << bins << " bins");
      Tensor x = torch::randn({2, bins, 3}).requires_grad_();
      const Tensor patches = PatchesOf(x, size, stride), expected = PatchesByUnfold(x, size, stride);
      REQUIRE(torch::equal(patches, expected));
      const Tensor gradient = torch::randn(expected.sizes());
      const Tensor actual = torch::autograd::grad({patches}, {x}, {gradient})[0];
      CHECK(RelativeError(actual, torch::autograd::grad({expected}, {x}, {gradient})[0]) < 1e-6);
    }
  }
}

TEST_CASE("a new day's GRU changes nothing in its day layers, and equal seeds give equal ones") {
  torch::manual_seed(1);
  const Tensor next = torch::rand({2});
  torch::manual_seed(1);
  DayGru one(TinyBrain(), 3);
  CHECK(torch::equal(torch::rand({2}), next));
  DayGru same(TinyBrain(), 3), other(TinyBrain(), 4);
  const auto parameters = one.named_parameters();
  CHECK(torch::equal(parameters["day_weights.1"], torch::eye(5)));
  CHECK(parameters["day_biases.2"].abs().max().item<double>() == 0);
  const Tensor recurrent = parameters["gru.layers.0.weight_hh_l0"];
  CHECK(torch::allclose(recurrent.t().matmul(recurrent), torch::eye(6), 1e-4, 1e-5));
  CHECK(parameters["gru.initial_states.0"].abs().max().item<double>() > 0);
  for (const auto& item : parameters) CHECK(torch::equal(item.value(), same.named_parameters()[item.key()]));
  CHECK_FALSE(torch::equal(recurrent, other.named_parameters()["gru.layers.0.weight_hh_l0"]));
}

TEST_CASE("what is not trained has no gradient") {
  DayGru model(TinyBrain());
  model.SetTrainable(/*day_layers=*/false, /*gru=*/true);
  CHECK_FALSE(model.named_parameters()["day_weights.0"].requires_grad());
  CHECK(model.named_parameters()["gru.layers.1.weight_hh_l0"].requires_grad());
  model.SetTrainable(/*day_layers=*/true, /*gru=*/false);
  CHECK(model.named_parameters()["day_biases.0"].requires_grad());
  CHECK_FALSE(model.named_parameters()["gru.layers.1.weight_hh_l0"].requires_grad());
  CHECK(model.named_parameters()["gru.classifier.weight"].requires_grad());
}

TEST_CASE("a saved model loads again, and one whose files do not belong together is refused") {
  const testing::TempFolder folder;
  DayGru model(TinyBrain(), 9);
  REQUIRE(SaveDayGru(model, folder.path()) == absl::OkStatus());
  const auto loaded = LoadDayGru(folder.path());
  INFO(loaded.status());
  REQUIRE(loaded.ok());
  CHECK((*loaded)->options().sessions == "one,two,three");
  for (const auto& item : model.named_parameters()) {
    CHECK(torch::equal(item.value(), (*loaded)->named_parameters()[item.key()]));
  }
  const auto with = [&](const std::string& text) {
    std::ofstream(folder.path() + "/" + kModelOptionsFile) << text;
    return std::string(LoadDayGru(folder.path()).status().message());
  };
  BrainModelOptions other = TinyBrain();
  other.n_units = 7;
  CHECK_THAT(with(ModelOptionsToYaml(other)), Catch::Contains("asks for [21, 20]"));
  other = TinyBrain();
  other.n_layers = 2;
  CHECK_THAT(with(ModelOptionsToYaml(other)), Catch::Contains("tensors, and model_options.yaml beside it asks for"));
  CHECK_THAT(with("n_units: many\n"), Catch::Contains("'n_units: many' is no option of a model"));
  CHECK(absl::IsNotFound(LoadDayGru(folder.path() + "/nothing").status()));
}

}  // namespace
}  // namespace distill
