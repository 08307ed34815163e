#include "libdistill/plan/planned_model.h"

#include <torch/utils.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/check.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/decoder_memory.h"
#include "libdistill/nn/encoder.h"
#include "libdistill/nn/encoder_heads.h"
#include "libdistill/nn/gru_memory.h"
#include "libdistill/shard/module_state.h"

namespace distill {
namespace {

PlannedModel Of(const std::string& family, const torch::nn::Module& shapes, const GatedModel& gated) {
  PlannedModel model{.family = family};
  auto parameters = CollectParameters(shapes, {});
  DISTILL_CHECK(parameters.ok(), std::string(parameters.status().message()));  // every family has some, in float32
  model.parameters = *std::move(parameters);
  model.block_of = BlocksOf(gated, model.parameters);
  for (const auto& weights : gated.BlockWeights()) {
    model.blocks.emplace_back();
    for (const torch::Tensor& weight : weights) model.blocks.back().push_back(weight.numel());
  }
  return model;
}

// A table's rows are looked up, not multiplied.
bool IsTable(const std::string& name) {
  return absl::StrContains(name, "embeddings.") || absl::StrContains(name, "embed_tokens.");
}

// Of matrices that multiply each token, but for tables; a tied head is one that does. Experts multiply a share of the
// tokens; those of a family may lie in one tensor of three dimensions.
double Multiplied(const PlannedModel& model, double share_of_experts = 1) {
  double elements = model.is_tied ? static_cast<double>(model.vocabulary * model.hidden) : 0;
  for (const TrainedParameter& parameter : model.parameters) {
    const bool is_matrix = parameter.tensor.dim() >= 2 && !absl::StrContains(parameter.name, "bias");
    if (!is_matrix || IsTable(parameter.name)) continue;
    const double share = absl::StrContains(parameter.name, ".experts.") ? share_of_experts : 1;
    elements += share * static_cast<double>(parameter.tensor.numel());
  }
  return elements;
}

int64_t SumOf(const std::vector<TrainedParameter>& parameters) {
  int64_t sum = 0;
  for (const TrainedParameter& parameter : parameters) sum += parameter.tensor.numel();
  return sum;
}

std::shared_ptr<torch::nn::Module> EncoderOf(const EncoderConfig& config, EncoderUse use, int64_t labels) {
  if (use == EncoderUse::kWords) return EncoderShapes(config);
  if (use == EncoderUse::kSpan) return SpanModelShapes(config);
  return ClassifierShapes(config, labels);
}

}  // namespace

int64_t PlannedModel::elements() const { return SumOf(parameters); }

int64_t PlannedModel::frozen_elements() const { return SumOf(frozen); }

void AddParameter(PlannedModel& model, const std::string& name, const std::vector<int64_t>& shape, double multiplied) {
  const torch::Tensor tensor = torch::empty(shape, torch::TensorOptions(torch::kMeta).dtype(torch::kFloat32));
  model.parameters.push_back({name, tensor, tensor.dim() > 1, shape[0]});
  model.block_of.push_back(-1);
  model.forward_flops = [before = std::move(model.forward_flops),
                         more = 2 * multiplied * static_cast<double>(tensor.numel())](int64_t length) {
    return (before == nullptr ? 0 : before(length)) + more;
  };
}

PlannedModel Planned(const DecoderConfig& config) {
  const auto shapes = DecoderShapes(config, torch::kFloat32);
  PlannedModel model = Of(config.model_type, *shapes, *shapes);
  model.hidden = config.hidden_size;
  model.widest = config.intermediate_size;
  model.vocabulary = config.vocab_size;
  model.is_tied = config.tie_word_embeddings;
  model.last_gradient = config.vocab_size * config.hidden_size;
  model.memory = [config](const ModelPass& pass) {
    DecoderConfig kept = config;
    if (pass.kept_blocks >= 0) kept.num_hidden_layers = pass.kept_blocks;
    return MemoryOf(kept, pass);
  };
  // A token looks at those before it: half a row on average.
  const ExpertsConfig& experts = config.experts;
  const double share =
      experts.count == 0 ? 1 : static_cast<double>(experts.per_token) / static_cast<double>(experts.count);
  const double products = 2 * Multiplied(model, share);
  const auto queries = static_cast<double>(config.num_attention_heads * config.head_dim * config.num_hidden_layers);
  model.forward_flops = [products, queries](int64_t length) {
    return products + 2 * queries * static_cast<double>(length);
  };
  return model;
}

PlannedModel Planned(const EncoderConfig& config, EncoderUse use, int64_t labels) {
  const auto shapes = EncoderOf(config, use, labels);
  PlannedModel model = Of(config.model_type, *shapes, dynamic_cast<const GatedModel&>(*shapes));
  model.hidden = config.hidden_size;
  model.widest = config.intermediate_size;
  if (use == EncoderUse::kWords) model.vocabulary = config.vocab_size;
  model.is_tied = use == EncoderUse::kWords;
  model.last_gradient = config.vocab_size * config.hidden_size;
  model.memory = [config, use](const ModelPass& pass) { return MemoryOf(config, use, pass); };
  double products = 2 * Multiplied(model);
  // A classifier's head looks at one token of a row.
  const auto head = static_cast<double>(config.hidden_size * (config.hidden_size + labels));
  const double once = use == EncoderUse::kClass ? 2 * head : 0;
  products -= once;
  const auto states = static_cast<double>(config.hidden_size * config.num_hidden_layers);
  model.forward_flops = [products, once, states](int64_t length) {
    return products + once / static_cast<double>(length) + 4 * states * static_cast<double>(length);
  };
  return model;
}

PlannedModel Planned(const GruOptions& options, int64_t targets) {
  PlannedModel model{.family = "GRU"};
  const int64_t directions = options.is_bidirectional ? 2 : 1, gates = 3 * options.hidden;
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const int64_t inputs = layer == 0 ? options.features : directions * options.hidden;
    for (const char* suffix : {"_l0", "_l0_reverse"}) {
      if (directions == 1 && absl::EndsWith(suffix, "_reverse")) continue;
      const std::string path = absl::StrCat("layers.", layer, ".");
      AddParameter(model, absl::StrCat(path, "weight_ih", suffix), {gates, inputs}, /*multiplied=*/1);
      AddParameter(model, absl::StrCat(path, "weight_hh", suffix), {gates, options.hidden}, /*multiplied=*/1);
      AddParameter(model, absl::StrCat(path, "bias_ih", suffix), {gates});
      AddParameter(model, absl::StrCat(path, "bias_hh", suffix), {gates});
    }
  }
  const int64_t states = options.shares_initial_state ? 1 : options.layers;
  for (int64_t layer = 0; layer < states; ++layer) {
    AddParameter(model, absl::StrCat("initial_states.", layer), {directions, options.hidden});
  }
  AddParameter(model, "classifier.weight", {options.classes, directions * options.hidden}, /*multiplied=*/1);
  AddParameter(model, "classifier.bias", {options.classes});
  model.hidden = options.hidden;
  model.widest = gates;
  model.last_gradient = gates * options.features;
  model.input_bytes = options.features * static_cast<int64_t>(sizeof(float));
  model.memory = [options, targets](const ModelPass& pass) { return MemoryOf(options, targets, pass); };
  // Frames follow one another: 0.6 s for a step of 64 rows of a brain-to-text model on an A10G are 0.06 of its peak.
  model.efficiency = 0.06;
  return model;
}

}  // namespace distill
