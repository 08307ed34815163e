#include "libdistill/task/unfreeze.h"

#include <string>

#include "absl/strings/match.h"
#include "libdistill/nn/decoder.h"
#include "tests/nn/tiny_models.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

std::vector<std::string> Trained(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad()) names.push_back(item.key());
  }
  return names;
}

absl::Status UnfreezeBy(const std::string& text, torch::nn::Module& module) {
  const testing::TempFolder folder;
  folder.Write("spectrum.yaml", text);
  const auto patterns = ReadYamlList(folder.path() + "/spectrum.yaml", kUnfrozenParameters);
  return patterns.ok() ? UnfreezeOnly(*patterns, module) : patterns.status();
}

using Names = std::vector<std::string>;

TEST_CASE("a file in Spectrum's form names what is trained") {
  Decoder model(TinyConfig());
  REQUIRE(
      UnfreezeBy("unfrozen_parameters:\n- ^lm_head.weight$\n# mlp.down_proj layers\n- model.layers.1.mlp.down_proj\n",
                 model)
          .ok());
  CHECK(Trained(model) == Names{"model.layers.1.mlp.down_proj.weight", "lm_head.weight"});
  // Again: what was trained before is frozen.
  REQUIRE(UnfreezeBy("unfrozen_parameters: ['layers.0.self_attn.[qk]_proj.weight']\nother: 1\n", model).ok());
  CHECK(Trained(model) == Names{"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight"});
}

TEST_CASE("a head that is the embedding's table is trained by either name") {
  DecoderConfig config = TinyConfig();
  config.tie_word_embeddings = true;
  for (const std::string name : {"^lm_head.weight$", "^model.embed_tokens.weight$"}) {
    Decoder model(config);
    REQUIRE(UnfreezeBy("unfrozen_parameters:\n- " + name + "\n", model).ok());
    CHECK(Trained(model) == Names{"model.embed_tokens.weight"});
  }
}

TEST_CASE("what a file says wrong is one error with its line, and changes nothing") {
  Decoder model(TinyConfig());
  const Names all = Trained(model);
  const auto check = [&](const std::string& text, const std::string& line, const std::string& what) {
    const absl::Status status = UnfreezeBy(text, model);
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "spectrum.yaml:" + line));
    CHECK(absl::StrContains(status.message(), what));
    CHECK(Trained(model) == all);
  };
  check("unfrozen_parameters:\n- model.norm\n- model.layers.7.mlp\n", "3",
        "'model.layers.7.mlp' is found in no parameter's name; the first of 27 is model.embed_tokens.weight");
  check("unfrozen_parameters:\n- model.(norm\n", "2", "model.(norm");
  check("unfrozen_parameters: []\n", "1", "unfrozen_parameters is an empty list");
  check("a: 1\nunfrozen_parameters:\n", "2", "unfrozen_parameters is an empty list");
  check("unfrozen_parameters: all\n", "1", "expected a list under 'unfrozen_parameters:'");
  check("unfrozen_parameters:\n- a\n- {b: c}\n", "3", "expected a name in this line");
  check("unfrozen_parameters:\n- ''\n", "2", "expected a name in this line");
  check("- model.norm\n", "1", "expected a list under 'unfrozen_parameters:'");
  check("unfrozen: [a]\n", "", "has no key unfrozen_parameters");
  check("unfrozen_parameters: [a\n", "2", "");
  CHECK(ReadYamlList("/no/such/file.yaml", kUnfrozenParameters).status().code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace distill
