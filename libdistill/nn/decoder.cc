#include "libdistill/nn/decoder.h"

#include <torch/nn/modules/container/modulelist.h>

#include <string>
#include <utility>
#include <vector>

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

struct Attention : torch::nn::Module {
  Attention(const DecoderConfig& c, const TensorOptions& options) : head_dim(c.head_dim) {
    const int64_t query_size = c.num_attention_heads * head_dim, key_size = c.num_key_value_heads * head_dim;
    const auto add = [&](const char* name, int64_t in, int64_t out, bool has_bias) {
      return register_module(name, std::make_shared<Linear>(in, out, has_bias, options));
    };
    q_proj = add("q_proj", c.hidden_size, query_size, c.query_key_value_bias);
    k_proj = add("k_proj", c.hidden_size, key_size, c.query_key_value_bias);
    v_proj = add("v_proj", c.hidden_size, key_size, c.query_key_value_bias);
    o_proj = add("o_proj", query_size, c.hidden_size, c.output_bias);
  }
  // [P, heads * D] -> [P, heads, D]
  Tensor Heads(const Linear& projection, const Tensor& x) const {
    return projection(x).view({x.size(0), projection.weight.size(0) / head_dim, head_dim});
  }

  const int64_t head_dim;
  std::shared_ptr<Linear> q_proj, k_proj, v_proj, o_proj;
};

struct Mlp : torch::nn::Module {
  Mlp(const DecoderConfig& c, const TensorOptions& options) {
    const auto add = [&](const char* name, int64_t in, int64_t out) {
      return register_module(name, std::make_shared<Linear>(in, out, c.mlp_bias, options));
    };
    gate_proj = add("gate_proj", c.hidden_size, c.intermediate_size);
    up_proj = add("up_proj", c.hidden_size, c.intermediate_size);
    down_proj = add("down_proj", c.intermediate_size, c.hidden_size);
  }
  std::shared_ptr<Linear> gate_proj, up_proj, down_proj;
};

struct Block : torch::nn::Module {
  Block(const DecoderConfig& c, const TensorOptions& options) {
    self_attn = register_module("self_attn", std::make_shared<Attention>(c, options));
    mlp = register_module("mlp", std::make_shared<Mlp>(c, options));
    input_layernorm =
        register_module("input_layernorm", std::make_shared<Norm>(c.hidden_size, c.rms_norm_eps, options));
    post_attention_layernorm =
        register_module("post_attention_layernorm", std::make_shared<Norm>(c.hidden_size, c.rms_norm_eps, options));
  }

  // `attend` takes query [P, A, D], keys and values [P, K, D], and gives [P, A * D]. `wanted`: the places of the tokens
  // whose states are asked for, [N] of P, or undefined for all.
  template <typename Attend>
  Tensor Forward(const Tensor& x, const RotaryAngles& angles, const Tensor& wanted, Attend&& attend) const {
    const Attention& a = *self_attn;
    const Tensor normed = (*input_layernorm)(x);
    const Tensor attended = attend(Rotate(a.Heads(*a.q_proj, normed), angles),
                                   Rotate(a.Heads(*a.k_proj, normed), angles), a.Heads(*a.v_proj, normed));
    const Tensor middle =
        wanted.defined() ? a.o_proj->AddTo(RowsAt(x, wanted), RowsAt(attended, wanted)) : a.o_proj->AddTo(x, attended);
    const Tensor wide = (*post_attention_layernorm)(middle);
    return mlp->down_proj->AddTo(middle, GatedUnit((*mlp->gate_proj)(wide), (*mlp->up_proj)(wide)));
  }

  std::shared_ptr<Attention> self_attn;
  std::shared_ptr<Mlp> mlp;
  std::shared_ptr<Norm> input_layernorm, post_attention_layernorm;
};

WeightNames NamesOf(const DecoderConfig& config) {
  WeightNames names{.model_type = config.model_type, .is_passed_over = [](const std::string& name) {
                      return absl::EndsWith(name,
                                            ".rotary_emb.inv_freq");  // older savers kept it; config.json gives it too
                    }};
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

// [P, H], or [N, H] of the places that are wanted. A checkpoint keeps the layout.
Tensor Decoder::Flat(const TokenInput& input, const std::shared_ptr<const TokenLayout>& layout, const Tensor& wanted) {
  const Tensor& weight = layers_->embed_tokens->weight;
  Tensor ids = input.input_ids.reshape({-1});
  if (layout->source.defined()) ids = ids.index_select(0, layout->source);
  const RotaryAngles angles = layers_->rotary.At(layout->positions, layout->max_length, weight);
  BeginPass();
  Tensor x = layers_->embed_tokens->LookUp(ids, config_.pad_token_id, gradient_sink());
  const size_t blocks = layers_->blocks.size();
  const double dropout = drops_ && is_training() ? config_.attention_dropout : 0;
  for (size_t i = 0; i < blocks; ++i) {
    const auto forward = [block = layers_->blocks[i], angles, layout, dropout,
                          here = i + 1 == blocks ? wanted : Tensor()](const Tensor& before) {
      return block->Forward(before, angles, here, [&](const Tensor& query, const Tensor& keys, const Tensor& values) {
        return DocumentAttention(query, keys, values, *layout, /*is_causal=*/true, dropout);
      });
    };
    x = RunBlock(i, forward, x, checkpoints_);
  }
  if (blocks == 0 && wanted.defined()) x = RowsAt(x, wanted);
  return (*layers_->norm)(x);
}

Tensor Decoder::LastHidden(const std::vector<std::vector<int32_t>>& tokens, KeyValueCache& cache) {
  const Tensor& weight = layers_->embed_tokens->weight;
  const KeyValueCache::Pass pass = cache.Begin(tokens, weight.device());
  const RotaryAngles angles = layers_->rotary.At(pass.positions, pass.longest, weight);
  BeginPass();
  Tensor x = at::embedding(weight, pass.ids);
  const size_t blocks = layers_->blocks.size();
  for (size_t i = 0; i < blocks; ++i) {
    const auto attend = [&](const Tensor& query, const Tensor& keys, const Tensor& values) {
      return cache.Attend(static_cast<int64_t>(i), pass, query, keys, values);
    };
    const Tensor wanted = i + 1 == blocks ? pass.last : Tensor();
    const auto forward = [&](const Tensor& before) {
      return layers_->blocks[i]->Forward(before, angles, wanted, attend);
    };
    x = RunBlock(i, forward, x, /*recomputes=*/false);
  }
  if (blocks == 0 && pass.last.defined()) x = RowsAt(x, pass.last);
  cache.Advance();
  return (*layers_->norm)(x);
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
