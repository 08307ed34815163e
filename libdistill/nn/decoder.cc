#include "libdistill/nn/decoder.h"

#include <torch/nn/modules/container/modulelist.h>

#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/attention.h"
#include "libdistill/nn/key_value_cache.h"
#include "libdistill/nn/layers.h"
#include "libdistill/nn/model_folder.h"
#include "libdistill/nn/norm_and_gate.h"
#include "libdistill/nn/rotary.h"
#include "libdistill/nn/token_layout.h"

// Shapes: B rows, T tokens, P tokens in the flat order of token_layout.h, H hidden, A query heads, K key-value heads,
// D head size, F feed-forward size, V vocabulary. Inside, a model works on [P, H].
namespace distill {
namespace {

using torch::Tensor;
using torch::TensorOptions;

struct Norm : torch::nn::Module {
  Norm(int64_t size, double epsilon, const TensorOptions& options) : epsilon(epsilon) {
    weight = register_parameter("weight", torch::empty({size}, options));
  }
  Tensor operator()(const Tensor& x) const { return RmsNorm(x, weight, epsilon); }

  const double epsilon;
  Tensor weight;  // [H]
};

struct Block : torch::nn::Module {
  Block(const DecoderConfig& c, const TensorOptions& options) : head_dim(c.head_dim) {
    const int64_t query_size = c.num_attention_heads * head_dim, key_size = c.num_key_value_heads * head_dim;
    const auto linear = [&](const char* path, int64_t in, int64_t out, bool has_bias) {
      return RegisterAt(*this, path, std::make_shared<Linear>(in, out, has_bias, options));
    };
    const auto norm = [&](const char* name) {
      return register_module(name, std::make_shared<Norm>(c.hidden_size, c.rms_norm_eps, options));
    };
    q_proj = linear("self_attn.q_proj", c.hidden_size, query_size, c.query_key_value_bias);
    k_proj = linear("self_attn.k_proj", c.hidden_size, key_size, c.query_key_value_bias);
    v_proj = linear("self_attn.v_proj", c.hidden_size, key_size, c.query_key_value_bias);
    o_proj = linear("self_attn.o_proj", query_size, c.hidden_size, c.output_bias);
    gate_proj = linear("mlp.gate_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
    up_proj = linear("mlp.up_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
    down_proj = linear("mlp.down_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
    input_layernorm = norm("input_layernorm");
    post_attention_layernorm = norm("post_attention_layernorm");
  }
  // [P, heads * D] -> [P, heads, D]
  Tensor Heads(const Linear& projection, const Tensor& x) const {
    return projection(x).view({x.size(0), projection.weight.size(0) / head_dim, head_dim});
  }

  // `wanted`: the places of the tokens whose states are asked for, [N] of P, or undefined for all.
  template <typename Attend>
  Tensor Forward(const Tensor& x, const RotaryAngles& angles, const Tensor& wanted, const Attend& attend) const {
    const Tensor normed = (*input_layernorm)(x);
    const Tensor attended =
        attend(Rotate(Heads(*q_proj, normed), angles), Rotate(Heads(*k_proj, normed), angles), Heads(*v_proj, normed));
    const Tensor middle =
        wanted.defined() ? o_proj->AddTo(RowsAt(x, wanted), RowsAt(attended, wanted)) : o_proj->AddTo(x, attended);
    const Tensor wide = (*post_attention_layernorm)(middle);
    return down_proj->AddTo(middle, GatedUnit((*gate_proj)(wide), (*up_proj)(wide)));
  }

  const int64_t head_dim;
  std::shared_ptr<Linear> q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj;
  std::shared_ptr<Norm> input_layernorm, post_attention_layernorm;
};

WeightNames NamesOf(const DecoderConfig& config) {
  // Older savers kept the frequencies; config.json gives them too.
  const auto is_frequency = [](const std::string& name) { return absl::EndsWith(name, ".rotary_emb.inv_freq"); };
  WeightNames names{.model_type = config.model_type, .is_passed_over = is_frequency};
  if (config.tie_word_embeddings) names.tied["lm_head.weight"] = "model.embed_tokens.weight";
  return names;
}

}  // namespace

struct Decoder::Layers : torch::nn::Module {
  Layers(const DecoderConfig& c, const TensorOptions& options, bool blocks_later) : rotary(c) {
    embed_tokens = register_module("embed_tokens", std::make_shared<Embedding>(c.vocab_size, c.hidden_size, options));
    auto list = std::make_shared<torch::nn::ModuleListImpl>();
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
      blocks.push_back(std::make_shared<Block>(c, options));
      list->push_back(blocks.back());
      if (blocks_later) DropMemory(blocks.back()->parameters());
    }
    register_module("layers", std::move(list));
    norm = register_module("norm", std::make_shared<Norm>(c.hidden_size, c.rms_norm_eps, options));
  }

  std::shared_ptr<Embedding> embed_tokens;
  std::vector<std::shared_ptr<Block>> blocks;
  std::shared_ptr<Norm> norm;
  std::shared_ptr<Linear> head;  // registered as the decoder's lm_head; null when tied to embed_tokens
  RotaryTable rotary;
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
  InitialiseWeights(*this, config.initializer_range, seed);
}

Decoder::~Decoder() = default;

Tensor Decoder::Hidden(const TokenInput& input) {
  const auto layout = LayoutOf(input);
  return ToBatchOrder(Flat(input, layout, {}), *layout, input.input_ids.size(0), input.input_ids.size(1));
}

Tensor Decoder::HiddenAt(const TokenInput& input, const Tensor& positions) {
  if (positions.size(0) == input.input_ids.numel()) return Hidden(input).flatten(0, 1);
  const auto layout = LayoutOf(input);
  return Flat(input, layout, layout->target.defined() ? layout->target.index_select(0, positions) : positions);
}

// `attend` of a block, which the graph may keep, takes query [P, A, D], keys and values [P, K, D], and gives [P, A *
// D].
template <typename Attend>
Tensor Decoder::RunBlocks(Tensor x, const RotaryAngles& angles, const Tensor& wanted, const Attend& attend,
                          bool recomputes) const {
  const size_t blocks = layers_->blocks.size();
  for (size_t i = 0; i < blocks; ++i) {
    const auto forward = [block = layers_->blocks[i], i, angles, attend,
                          here = i + 1 == blocks ? wanted : Tensor()](const Tensor& before) {
      return block->Forward(before, angles, here, std::bind_front(attend, static_cast<int64_t>(i)));
    };
    x = RunBlock(i, forward, x, recomputes);
  }
  if (blocks == 0 && wanted.defined()) x = RowsAt(x, wanted);
  return (*layers_->norm)(x);
}

// [P, H], or [N, H] of the places that are wanted. A checkpoint keeps the layout.
Tensor Decoder::Flat(const TokenInput& input, const std::shared_ptr<const TokenLayout>& layout, const Tensor& wanted) {
  const Tensor& weight = layers_->embed_tokens->weight;
  Tensor ids = input.input_ids.reshape({-1});
  if (layout->source.defined()) ids = ids.index_select(0, layout->source);
  const RotaryAngles angles = layers_->rotary.At(layout->positions, layout->max_length, weight);
  BeginPass();
  const double dropout = drops_ && is_training() ? config_.attention_dropout : 0;
  const auto attend = [layout, dropout](int64_t /*block*/, const Tensor& query, const Tensor& keys,
                                        const Tensor& values) {
    return DocumentAttention(query, keys, values, *layout, /*is_causal=*/true, dropout);
  };
  return RunBlocks(layers_->embed_tokens->LookUp(ids, config_.pad_token_id, gradient_sink()), angles, wanted, attend,
                   checkpoints_);
}

Tensor Decoder::LastHidden(const std::vector<std::vector<int32_t>>& tokens, KeyValueCache& cache) {
  const Tensor& weight = layers_->embed_tokens->weight;
  const KeyValueCache::Pass pass = cache.Begin(tokens, weight.device());
  const RotaryAngles angles = layers_->rotary.At(pass.positions, pass.longest, weight);
  BeginPass();
  const auto attend = [&](int64_t block, const Tensor& query, const Tensor& keys, const Tensor& values) {
    return cache.Attend(block, pass, query, keys, values);
  };
  const Tensor last = RunBlocks(at::embedding(weight, pass.ids), angles, pass.last, attend, /*recomputes=*/false);
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
