// Which of a model's matrices say the most, so that they alone are trained: Spectrum (Hartford et al. 2024, "Spectrum:
// Targeted Training on Signal to Noise Ratio", arXiv 2406.06623), with the choice that its program spectrum.py makes.
//
//   DISTILL_ASSIGN_OR_RETURN(const auto choice, ChooseLayers(*model, /*percent=*/25));
//   SpectrumYaml(choice);          // what layers_to_unfreeze takes
//
// The singular values s of a matrix [m, n] of noise alone with standard deviation sigma end at the Marchenko-Pastur
// edge. Sigma is taken from the values themselves, as their distance between the quartiles over 1.349 (that of a normal
// distribution with deviation 1), and the edge as sigma * (1 + sqrt(min(m, n) / max(m, n))). What lies above is signal:
//
//   ratio = (sum of s above / sum of the other s) / the largest s
//
// Of each kind of layer, "mlp.down_proj", those with the highest ratios are chosen, as many as the percentage of them,
// rounded down: none of a kind that a model has once. A weight of one dimension counts as a matrix of one row: its
// ratio is 1, so that of norms the first are taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/statusor.h"
#include "examples/llm/options.h"

namespace distill {

struct ChosenLayers {
  std::string kind;                 // "self_attn.q_proj"
  std::vector<std::string> layers;  // "model.layers.3.self_attn.q_proj", the highest ratio first
};

// Of a module with transformers' names, in float32 on the CPU. `has_tied_head`: it has a head "lm_head" that is another
// name of a table. Kinds in the order of spectrum.py, also those of which nothing is chosen. Blocks for the singular
// values, minutes for models of billions of weights. InvalidArgument names a weight that is not finite.
[[nodiscard]] absl::StatusOr<std::vector<ChosenLayers>> ChooseLayers(const torch::nn::Module& module, int64_t percent,
                                                                     bool has_tied_head);

// The file of spectrum.py: the key unfrozen_parameters, head and embedding, then the layers of each kind.
std::string SpectrumYaml(const std::vector<ChosenLayers>& choice);
// The name that spectrum.py gives it: "snr_results_ORG-NAME_unfrozenparameters_25percent.yaml".
std::string SpectrumFileName(const std::string& model, int64_t percent);

// --spectrum: of student_model, into flags.spectrum_file or the name above. On one rank.
[[nodiscard]] absl::Status WriteSpectrum(const LlmOptions& options, const LlmFlags& flags, const std::string& model);

}  // namespace distill
