#include "libdistill/task/unfreeze.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/text/regex.h"

namespace distill {
namespace {

// As transformers calls a head, also one that it does not list, since it is the embedding's table.
constexpr char kHead[] = "lm_head.weight";

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

NamedTensors NamesOf(const torch::nn::Module& module) {
  NamedTensors names;
  for (const auto& item : module.named_parameters()) names.emplace_back(item.key(), item.value());
  const auto* model = dynamic_cast<const LanguageModel*>(&module);
  if (model != nullptr && model->embedding_weight().defined() &&
      model->embedding_weight().is_same(model->head_weight())) {
    names.emplace_back(kHead, model->head_weight());
  }
  return names;
}

absl::StatusOr<bool> IsFoundIn(const Regex& regex, const std::string& name) {
  bool is_found = false;
  DISTILL_RETURN_IF_ERROR(regex.ForEachMatch(name, [&](size_t, size_t) { is_found = true; }));
  return is_found;
}

// Adds what the pattern is found in.
absl::Status Find(const YamlItem& pattern, const NamedTensors& names, std::vector<torch::Tensor>& trained) {
  DISTILL_ASSIGN_OR_RETURN(const Regex regex, Regex::Compile(pattern.text));
  const size_t before = trained.size();
  for (const auto& [name, tensor] : names) {
    DISTILL_ASSIGN_OR_RETURN(const bool is_found, IsFoundIn(regex, name));
    if (is_found) trained.push_back(tensor);
  }
  if (trained.size() > before) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", pattern.text, "' is found in no parameter's name; the first of ",
                                                 names.size(), " is ", names.front().first, ", the last ",
                                                 names.back().first));
}

}  // namespace

absl::Status UnfreezeOnly(const std::vector<YamlItem>& patterns, torch::nn::Module& module) {
  const NamedTensors names = NamesOf(module);
  if (names.empty()) return absl::InvalidArgumentError("the module has no parameters");
  std::vector<torch::Tensor> trained;
  for (const YamlItem& pattern : patterns) {
    DISTILL_RETURN_IF_ERROR(Annotate(Find(pattern, names, trained), pattern.place));
  }
  if (trained.empty()) return absl::InvalidArgumentError("there is no pattern of what is to be trained");
  for (auto [name, tensor] : names) tensor.set_requires_grad(false);
  for (torch::Tensor& tensor : trained) tensor.set_requires_grad(true);
  return absl::OkStatus();
}

}  // namespace distill
