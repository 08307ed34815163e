// What the comparisons of decoders and of encoders with transformers share: the models' folders, and their gradients.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/strings/match.h"
#include "tests/support/folders.h"
#include "tests/tensor/test_tensors.h"

namespace distill {

constexpr double kGoldenTolerance = 1e-4;

// The folders of build/golden/NAME, of which its script makes `count`.
inline std::vector<std::filesystem::path> GoldenModels(const std::string& name, size_t count) {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenFolder() + "/" + name)) {
    folders.push_back(entry.path());
  }
  REQUIRE(folders.size() == count);
  return folders;
}

// Compares every parameter's gradient with the tensor PREFIX.PARAMETER, and clears it.
inline void CheckGradients(torch::nn::Module& model, const std::map<std::string, torch::Tensor>& golden,
                           const std::string& prefix) {
  size_t expected = 0;
  for (const auto& [name, tensor] : golden) expected += name.rfind(prefix + ".", 0) == 0;
  CHECK(model.named_parameters().size() == expected);
  for (auto& parameter : model.named_parameters()) {
    INFO(prefix << " " << parameter.key());
    const torch::Tensor& other = golden.at(prefix + "." + parameter.key());
    // Where positions rotate nothing, biases of keys shift all scores of a query alike: their gradient is rounding
    // alone.
    const bool is_key_bias =
        absl::StrContains(parameter.key(), "key.bias") || absl::StrContains(parameter.key(), "k_lin.bias") ||
        (absl::StrContains(parameter.key(), "k_proj.bias") && other.abs().max().item<double>() < 1e-4);
    if (absl::EndsWith(parameter.key(), ".sinks")) continue;  // constants here: families with them are teachers alone
    if (is_key_bias) {
      CHECK(parameter.value().grad().abs().max().item<double>() < 1e-3);
    } else {
      CHECK(RelativeError(parameter.value().grad(), other) < kGoldenTolerance);
    }
    parameter.value().mutable_grad().reset();
  }
}

}  // namespace distill
