#include "libdistill/nn/decoder.h"

#include <torch/nn/modules/container/modulelist.h>

#include <cmath>
#include <functional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/attention.h"
#include "libdistill/nn/decoder_block.h"
#include "libdistill/nn/key_value_cache.h"
#include "libdistill/nn/layers.h"
#include "libdistill/nn/model_folder.h"
#include "libdistill/nn/rotary.h"
#include "libdistill/nn/token_layout.h"
#include "libdistill/nn/variable_length_attention.h"
#include "libdistill/store/gguf.h"

// Shapes: B rows, T tokens, P tokens in the flat order of token_layout.h, H hidden, A query heads, K key-value heads,
// D head size, V vocabulary. Inside, a model works on [P, H].
namespace distill {
namespace {

using torch::Tensor;
using torch::TensorOptions;

WeightNames NamesOf(const DecoderConfig& config) {
  // Older savers kept the frequencies, and GGUF keeps their factors; config.json gives them too.
  const auto is_frequency = [](const std::string& name) {
    return absl::EndsWith(name, ".rotary_emb.inv_freq") || IsGgufRopeFactors(name);
  };
  WeightNames names{.model_type = config.model_type, .is_passed_over = is_frequency};
  if (config.tie_word_embeddings) names.tied["lm_head.weight"] = "model.embed_tokens.weight";
  return names;
}

}  // namespace

struct Decoder::Layers : torch::nn::Module {
  Layers(const DecoderConfig& c, const TensorOptions& options, bool blocks_later) {
    for (const RopeConfig& rope : c.ropes) ropes.emplace_back(rope, c.head_dim);
    embed_tokens = register_module("embed_tokens", std::make_shared<Embedding>(c.vocab_size, c.hidden_size, options));
    auto list = std::make_shared<torch::nn::ModuleListImpl>();
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
      blocks.push_back(std::make_shared<DecoderBlock>(c, c.layer(i), options));
      list->push_back(blocks.back());
      if (blocks_later) DropMemory(blocks.back()->parameters());
    }
    register_module("layers", std::move(list));
    norm = register_module("norm", std::make_shared<Norm>(c.hidden_size, c, options));
  }

  std::vector<RotaryAngles> Angles(const Tensor& positions, int64_t longest,
                                   const std::vector<DocumentSpan>& documents) {
    std::vector<RotaryAngles> angles;
    for (RotaryTable& rope : ropes) angles.push_back(rope.At(positions, longest, documents, embed_tokens->weight));
    return angles;
  }

  std::shared_ptr<Embedding> embed_tokens;
  std::vector<std::shared_ptr<DecoderBlock>> blocks;
  std::shared_ptr<Norm> norm;
  std::shared_ptr<Linear> head;  // registered as the decoder's lm_head; null when tied to embed_tokens
  std::vector<RotaryTable> ropes;
};

Decoder::Decoder(const DecoderConfig& config, const TensorOptions& options, bool blocks_later)
    : config_(config), layers_(std::make_shared<Layers>(config, options, blocks_later)) {
  register_module("model", layers_);
  if (config.tie_word_embeddings) return;
  layers_->head = std::make_shared<Linear>(config.hidden_size, config.vocab_size, /*has_bias=*/false, options);
  register_module("lm_head", layers_->head);
}

Decoder::Decoder(const DecoderConfig& config, uint64_t seed, bool blocks_later)
    : Decoder(config, TensorOptions(torch::kFloat32), blocks_later) {
  // Norms begin as what changes nothing.
  InitialiseWeights(*this, {config.initializer_range, config.norm == NormKind::kPlusOne ? 0.0 : 1.0}, seed);
}

Decoder::~Decoder() = default;

double Decoder::AttentionDropout() const { return drops_ && is_training() ? config_.attention_dropout : 0; }

std::shared_ptr<const TokenLayout> Decoder::LayoutFor(const TokenInput& input) const {
  const Tensor& weight = layers_->embed_tokens->weight;
  return LayoutOf(input,
                  TakesVariableLengths({.device = weight.device(),
                                        .dtype = weight.scalar_type(),
                                        .head_size = config_.head_dim,
                                        .dropout = AttentionDropout(),
                                        .has_cap_or_sinks = config_.attention_softcap > 0 || config_.attention_sinks}));
}

Tensor Decoder::Hidden(const TokenInput& input) {
  const auto layout = LayoutFor(input);
  return ToBatchOrder(Flat(input, layout, {}), *layout, input.input_ids.size(0), input.input_ids.size(1));
}

Tensor Decoder::HiddenAt(const TokenInput& input, const Tensor& positions) {
  if (positions.size(0) == input.input_ids.numel()) return Hidden(input).flatten(0, 1);
  const auto layout = LayoutFor(input);
  return Flat(input, layout, layout->target.defined() ? layout->target.index_select(0, positions) : positions);
}

LayerStates Decoder::StatesAt(const TokenInput& input, const Tensor& positions, const std::vector<int64_t>& layers) {
  for (const int64_t layer : layers) {
    TORCH_CHECK_VALUE(0 <= layer && layer <= num_layers(), "layer ", layer, " of ", num_layers());
  }
  const auto layout = LayoutFor(input);
  const Tensor places = layout->target.defined() ? layout->target.index_select(0, positions) : positions;
  Taps taps = {layers, places};
  const Tensor last = Flat(input, layout, places, &taps);
  return {last, std::move(taps.states)};
}

// A layer may be asked for more than once. That of the last block is asked for in its final form, after the norm.
void Decoder::Taps::Take(int64_t layer, const Tensor& x) {
  states.resize(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == layer) states[i] = x;
  }
}

// `attend`, which the graph may keep, is DecoderBlock's after the block's number.
Tensor Decoder::RunBlocks(Tensor x, std::vector<RotaryAngles> angles, const Tensor& wanted, const BlockAttend& attend,
                          bool recomputes, Taps* taps) const {
  if (config_.scales_embeddings) x = x * ScaleOf(x);
  const auto tap = [&](int64_t layer) {
    const bool is_asked = taps != nullptr && absl::c_linear_search(taps->layers, layer) && layer < num_layers();
    if (is_asked) taps->Take(layer, RowsAt(x, taps->places));
  };
  tap(0);
  const auto shared_angles = std::make_shared<const std::vector<RotaryAngles>>(std::move(angles));
  const size_t blocks = layers_->blocks.size();
  for (size_t i = 0; i < blocks; ++i) {
    const auto forward = [block = layers_->blocks[i], i, shared_angles, attend,
                          here = i + 1 == blocks ? wanted : Tensor()](const Tensor& before) {
      return block->Forward(before, *shared_angles, here, std::bind_front(attend, static_cast<int64_t>(i)));
    };
    x = RunBlock(i, forward, x, recomputes);
    tap(static_cast<int64_t>(i) + 1);
  }
  if (blocks == 0 && wanted.defined()) x = RowsAt(x, wanted);
  x = (*layers_->norm)(x);
  if (taps != nullptr) taps->Take(num_layers(), x);
  return x;
}

// The square root of H as a number of x's type, as transformers rounds it.
double Decoder::ScaleOf(const Tensor& x) const {
  return torch::scalar_tensor(std::sqrt(static_cast<double>(config_.hidden_size)), x.scalar_type()).item<double>();
}

// [P, H], or [N, H] of the places that are wanted. A checkpoint keeps the layout.
Tensor Decoder::Flat(const TokenInput& input, const std::shared_ptr<const TokenLayout>& layout, const Tensor& wanted,
                     Taps* taps) {
  Tensor ids = input.input_ids.reshape({-1});
  if (layout->source.defined()) ids = ids.index_select(0, layout->source);
  BeginPass();
  const auto attend = [layout, dropout = AttentionDropout()](int64_t /*block*/, const Tensor& query, const Tensor& keys,
                                                             const Tensor& values, const AttentionTraits& traits) {
    return DocumentAttention(query, keys, values, *layout, /*is_causal=*/true, dropout, traits);
  };
  return RunBlocks(layers_->embed_tokens->LookUp(ids, config_.pad_token_id, gradient_sink()),
                   layers_->Angles(layout->positions, layout->max_length, SpansOf(*layout)), wanted, attend,
                   checkpoints_, taps);
}

Tensor Decoder::LastHidden(const std::vector<std::vector<int32_t>>& tokens, KeyValueCache& cache) {
  const Tensor& weight = layers_->embed_tokens->weight;
  const KeyValueCache::Pass pass = cache.Begin(tokens, weight.device());
  BeginPass();
  const auto attend = [&](int64_t block, const Tensor& query, const Tensor& keys, const Tensor& values,
                          const AttentionTraits& traits) {
    return cache.Attend(block, pass, query, keys, values, traits);
  };
  const Tensor last = RunBlocks(at::embedding(weight, pass.ids),
                                layers_->Angles(pass.positions, pass.longest, pass.documents), pass.last, attend,
                                /*recomputes=*/false);
  cache.Advance();
  return last;
}

Tensor Decoder::head_weight() const {
  return layers_->head != nullptr ? layers_->head->weight : layers_->embed_tokens->weight;
}

Tensor Decoder::embedding_weight() const { return layers_->embed_tokens->weight; }

std::vector<std::vector<Tensor>> Decoder::BlockWeights() const {
  std::vector<std::vector<Tensor>> weights;
  for (const auto& block : layers_->blocks) weights.push_back(block->parameters());
  return weights;
}

std::shared_ptr<Decoder> DecoderShapes(const DecoderConfig& config, torch::Dtype dtype) {
  return std::shared_ptr<Decoder>(new Decoder(config, TensorOptions(torch::kMeta).dtype(dtype)));
}

std::shared_ptr<Decoder> DrawnDecoder(const DecoderConfig& config, torch::Dtype dtype, torch::Device device) {
  const torch::NoGradGuard no_grad;
  std::shared_ptr<Decoder> decoder(new Decoder(config, TensorOptions(device).dtype(dtype)));
  const double norm = config.norm == NormKind::kPlusOne ? 0.0 : 1.0;
  for (auto& parameter : decoder->named_parameters()) {
    Tensor& value = parameter.value();
    if (value.dim() >= 2) {
      value.normal_(0.0, config.initializer_range);
    } else {
      value.fill_(absl::EndsWith(parameter.key(), ".bias") ? 0.0 : norm);
    }
  }
  return decoder;
}

absl::StatusOr<std::shared_ptr<Decoder>> LoadDecoder(const std::string& folder, const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ReadDecoderConfig(folder));
  return LoadModel(folder, NamesOf(config), options, [&](const TensorOptions& weights, bool blocks_later) {
    return std::shared_ptr<Decoder>(new Decoder(config, weights, blocks_later));
  });
}

absl::StatusOr<std::shared_ptr<Decoder>> CreateDecoder(const std::string& folder, uint64_t seed,
                                                       const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ReadDecoderConfig(folder));
  return CreateModel(folder, options, [&] { return std::make_shared<Decoder>(config, seed, options.blocks_later); });
}

absl::Status Decoder::Save(const std::string& folder, const std::string& tokenizer_folder, torch::Dtype dtype) const {
  if (config_.json.empty()) return LanguageModel::Save(folder, tokenizer_folder, dtype);
  return SaveModel(*this, config_.json, folder, tokenizer_folder, dtype);
}

}  // namespace distill
