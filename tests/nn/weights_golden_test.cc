#include <filesystem>
#include <string>

#include <torch/nn/module.h>

#include "absl/strings/match.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/encoder.h"
#include "tests/nn/golden_models.h"
#include "tests/tensor/test_tensors.h"

// tests/golden/torch_files_golden.py made the folders.
namespace distill::weights_golden {
namespace {

struct LoadedModel {
  std::shared_ptr<torch::nn::Module> module;
  ModelContent content;
};

LoadedModel Load(const std::string& name, const std::string& folder) {
  const auto loaded = [](const auto& model) {
    INFO(model.status());
    REQUIRE(model.ok());
    return LoadedModel{*model, (*model)->content()};
  };
  if (absl::StrContains(name, "bert")) return loaded(LoadEncoder(folder));
  return loaded(LoadDecoder(folder));
}

TEST_CASE("pytorch_model.bin, new, old and in parts, gives the model that safetensors give, to the last bit") {
  for (const auto& folder : GoldenModels("torch_models", 4)) {
    const std::string name = folder.filename();
    const LoadedModel golden = Load(name, folder / "safetensors");
    for (const char* kind : {"new", "legacy", "sharded"}) {
      INFO(name << ", " << kind);
      const LoadedModel other = Load(name, folder / kind);
      const auto parameters = other.module->named_parameters();
      CHECK(parameters.size() == golden.module->named_parameters().size());
      for (const auto& parameter : golden.module->named_parameters()) {
        CHECK(torch::equal(parameters[parameter.key()], parameter.value()));
      }
      CHECK(other.content == golden.content);  // ranks that compare it take one for the other
    }
  }
}

}  // namespace
}  // namespace distill::weights_golden
