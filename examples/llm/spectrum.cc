#include "examples/llm/spectrum.h"

#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/quantile.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

struct Layer {
  std::string name;
  torch::Tensor weight;
};

// Modules with a weight, in the model's order.
std::vector<Layer> LayersOf(const torch::nn::Module& module, bool has_tied_head) {
  std::vector<Layer> layers;
  for (const auto& item : module.named_parameters()) {
    absl::string_view name = item.key();
    if (absl::ConsumeSuffix(&name, ".weight")) layers.push_back({std::string(name), item.value().detach()});
  }
  if (has_tied_head) layers.push_back({"lm_head", {}});
  return layers;
}

// What follows the layer's number; the whole name of one that has none.
std::string KindOf(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  const auto is_number = [](const std::string& part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
  };
  const auto number = std::find_if(parts.begin(), parts.end(), is_number);
  return number == parts.end() ? name : absl::StrJoin(number + 1, parts.end(), ".");
}

// By their first part, then as a whole.
std::vector<std::string> KindsOf(const std::vector<Layer>& layers) {
  std::set<std::pair<std::string, std::string>> sorted;
  for (const Layer& layer : layers) {
    const std::string kind = KindOf(layer.name);
    sorted.emplace(kind.substr(0, kind.find('.')), kind);
  }
  std::vector<std::string> kinds;
  for (const auto& [category, kind] : sorted) kinds.push_back(kind);
  return kinds;
}

// In float32, as spectrum.py computes it.
double RatioOf(const torch::Tensor& weight) {
  const torch::Tensor matrix = weight.dim() < 2 ? weight.unsqueeze(0) : weight;
  const torch::Tensor values = at::linalg_svdvals(matrix);
  const torch::Tensor sigma = (at::quantile(values, 0.75) - at::quantile(values, 0.25)) / 1.349;
  const auto rows = static_cast<double>(matrix.size(-2)), columns = static_cast<double>(matrix.size(-1));
  const double beta = std::min(rows, columns) / std::max(rows, columns);
  const torch::Tensor is_signal = values > sigma * std::sqrt(std::pow(1 + std::sqrt(beta), 2));
  const torch::Tensor signal = values.masked_select(is_signal), noise = values.masked_select(is_signal.logical_not());
  const torch::Tensor above = signal.sum(), below = noise.numel() > 0 ? noise.sum() : torch::ones({});
  const torch::Tensor ratio = below.item<float>() != 0
                                  ? above / below
                                  : torch::full({}, std::numeric_limits<float>::infinity(), torch::kFloat32);
  return static_cast<double>((ratio / values[0]).item<float>());
}

// The layers of one kind with their ratios, the highest first; of equal ones that which comes first.
absl::StatusOr<std::vector<std::string>> Highest(const std::vector<const Layer*>& layers, size_t count) {
  std::vector<std::pair<double, std::string>> ratios;
  for (const Layer* layer : layers) {
    // Of a kind that is there once it does not matter what the ratio is.
    const bool matters = count > 0 && layers.size() > 1;
    if (matters && !layer->weight.isfinite().all().item<bool>()) {
      return absl::InvalidArgumentError(absl::StrCat("the weight ", layer->name, ".weight is not finite"));
    }
    ratios.emplace_back(matters ? RatioOf(layer->weight) : 0, layer->name);
  }
  std::stable_sort(ratios.begin(), ratios.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(ratios[i].second);
  return names;
}

}  // namespace

absl::StatusOr<std::vector<ChosenLayers>> ChooseLayers(const torch::nn::Module& module, int64_t percent,
                                                       bool has_tied_head) {
  const torch::NoGradGuard no_grad;
  const std::vector<Layer> layers = LayersOf(module, has_tied_head);
  const std::vector<std::string> kinds = KindsOf(layers);
  // A kind takes all layers in whose names it is; one that two kinds take is the later one's.
  std::map<std::string, std::string> kind_of;
  for (const std::string& kind : kinds) {
    for (const Layer& layer : layers) {
      if (absl::StrContains(layer.name, kind)) kind_of[layer.name] = kind;
    }
  }
  std::vector<ChosenLayers> choice;
  for (const std::string& kind : kinds) {
    std::vector<const Layer*> of_kind;
    for (const Layer& layer : layers) {
      if (kind_of[layer.name] == kind) of_kind.push_back(&layer);
    }
    if (of_kind.empty()) continue;
    DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> names,
                             Highest(of_kind, of_kind.size() * static_cast<size_t>(percent) / 100));
    choice.push_back({kind, std::move(names)});
  }
  return choice;
}

std::string SpectrumYaml(const std::vector<ChosenLayers>& choice) {
  std::string text = "unfrozen_parameters:\n- ^lm_head.weight$\n- ^model.embed_tokens.weight$\n";
  for (const ChosenLayers& chosen : choice) {
    absl::StrAppend(&text, "# ", chosen.kind, " layers\n");
    for (const std::string& name : chosen.layers) absl::StrAppend(&text, "- ", name, "\n");
  }
  return text;
}

std::string SpectrumFileName(const std::string& model, int64_t percent) {
  return absl::StrCat("snr_results_", absl::StrReplaceAll(model, {{"/", "-"}, {"_", "-"}}), "_unfrozenparameters_",
                      percent, "percent.yaml");
}

absl::Status WriteSpectrum(const LlmOptions& options, const LlmFlags& flags, const std::string& model) {
  absl::StatusOr<bool> has_weights = HasWeights(options.student_model);
  if (has_weights.ok() && !*has_weights) {
    has_weights = absl::FailedPreconditionError(
        absl::StrCat(options.student_model, " has no weights, and random ones have no signal"));
  }
  DISTILL_RETURN_IF_ERROR(Annotate(has_weights.status(), "student_model"));
  const std::string path = flags.spectrum_file.empty() ? SpectrumFileName(model, flags.spectrum) : flags.spectrum_file;
  DISTILL_ASSIGN_OR_RETURN(const auto student, LoadDecoder(options.student_model, {}));
  absl::StatusOr<std::vector<ChosenLayers>> choice = absl::UnknownError("not chosen");
  DISTILL_RETURN_IF_ERROR(CatchTorch([&] {
    return (choice = ChooseLayers(*student, flags.spectrum, student->config().tie_word_embeddings)).status();
  }));
  DISTILL_RETURN_IF_ERROR(Annotate(WriteWholeFile(path, SpectrumYaml(*choice)), "spectrum_file"));
  size_t layers = 0;
  for (const ChosenLayers& chosen : *choice) layers += chosen.layers.size();
  LogInfo(absl::StrCat(layers, " layers with the highest signal-to-noise ratios, of ", choice->size(),
                       " kinds, are in ", path, "; to train them, head and embedding: --layers_to_unfreeze ", path));
  return absl::OkStatus();
}

}  // namespace distill
