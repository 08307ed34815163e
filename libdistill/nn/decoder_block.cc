#include "libdistill/nn/decoder_block.h"

#include "libdistill/nn/token_layout.h"

namespace distill {

using torch::Tensor;
using torch::TensorOptions;

// Weights are drawn in the order in which they are made here: another order would be other weights of the same seed.
DecoderBlock::DecoderBlock(const DecoderConfig& config, const DecoderLayer& layer, const TensorOptions& options)
    : config_(config), layer_(layer) {
  MakeAttention(options);
  if (layer.has_experts) {
    experts_.emplace(*this, config, options);
  } else {
    feed_forward_.emplace(*this, "mlp", config, config.intermediate_size, options);
  }
  const int64_t hidden = config.hidden_size;
  before_attention_ = MakeNorm(config.block_norms.before_attention, hidden, options);
  after_attention_ = MakeNorm(config.block_norms.after_attention, hidden, options);
  before_mlp_ = MakeNorm(config.block_norms.before_mlp, hidden, options);
  after_mlp_ = MakeNorm(config.block_norms.after_mlp, hidden, options);
}

std::shared_ptr<Norm> DecoderBlock::MakeNorm(const char* path, int64_t size, const TensorOptions& options) {
  if (*path == 0) return nullptr;
  return RegisterAt(*this, path, std::make_shared<Norm>(size, config_, options));
}

void DecoderBlock::MakeAttention(const TensorOptions& options) {
  const DecoderConfig& c = config_;
  const int64_t query_size = c.num_attention_heads * c.head_dim, key_size = c.num_key_value_heads * c.head_dim;
  const auto linear = [&](const char* path, int64_t in, int64_t out, bool has_bias) {
    return RegisterAt(*this, path, std::make_shared<Linear>(in, out, has_bias, options));
  };
  if (c.fuses_projections) {
    qkv_proj_ = linear("self_attn.qkv_proj", c.hidden_size, query_size + 2 * key_size, c.query_key_value_bias);
  } else {
    q_proj_ = linear("self_attn.q_proj", c.hidden_size, query_size, c.query_key_value_bias);
    k_proj_ = linear("self_attn.k_proj", c.hidden_size, key_size, c.query_key_value_bias);
    v_proj_ = linear("self_attn.v_proj", c.hidden_size, key_size, c.query_key_value_bias);
  }
  o_proj_ = linear("self_attn.o_proj", query_size, c.hidden_size, c.output_bias);
  if (c.query_key_norm != QueryKeyNorm::kNone) {
    const bool is_whole = c.query_key_norm == QueryKeyNorm::kWhole;
    q_norm_ = MakeNorm("self_attn.q_norm", is_whole ? query_size : c.head_dim, options);
    k_norm_ = MakeNorm("self_attn.k_norm", is_whole ? key_size : c.head_dim, options);
  }
  attention_ = {.scale = c.attention_scale, .softcap = c.attention_softcap, .window = layer_.window};
  if (!c.attention_sinks) return;
  std::string name = "self_attn.sinks";
  attention_.sinks = HolderOf(*this, name).register_parameter(name, torch::empty({c.num_attention_heads}, options));
}

// Each [P, heads, D].
std::array<Tensor, 3> DecoderBlock::QueryKeysValues(const Tensor& normed) const {
  const auto heads = [&](const Tensor& x) {
    return x.view({x.size(0), x.size(1) / config_.head_dim, config_.head_dim});
  };
  if (qkv_proj_ == nullptr) {
    return {heads((*q_proj_)(normed)), heads((*k_proj_)(normed)), heads((*v_proj_)(normed))};
  }
  const int64_t queries = config_.num_attention_heads, keys = config_.num_key_value_heads;
  const std::vector<Tensor> parts = at::split_with_sizes(heads((*qkv_proj_)(normed)), {queries, keys, keys}, 1);
  return {parts[0], parts[1], parts[2]};
}

// Of each head's elements, or of all heads' at once, as long as the norm's weight; x itself without a norm.
Tensor DecoderBlock::Normed(const Tensor& x, const std::shared_ptr<Norm>& norm) const {
  return norm == nullptr ? x : (*norm)(x.reshape({-1, norm->weight.size(0)})).view(x.sizes());
}

// [P, A * D]; what leads to it is given back before the rest of the block runs.
Tensor DecoderBlock::Attended(const Tensor& x, const std::vector<RotaryAngles>& angles, const Attend& attend) const {
  auto [query, keys, values] = QueryKeysValues(Normed(x, before_attention_));
  query = Normed(query, q_norm_), keys = Normed(keys, k_norm_);
  if (layer_.rope >= 0) query = Rotate(query, angles[layer_.rope]), keys = Rotate(keys, angles[layer_.rope]);
  return attend(query, keys, values, attention_);
}

Tensor DecoderBlock::Forward(const Tensor& x, const std::vector<RotaryAngles>& angles, const Tensor& wanted,
                             const Attend& attend) const {
  Tensor attended = Attended(x, angles, attend), residual = x;
  if (wanted.defined()) attended = RowsAt(attended, wanted), residual = RowsAt(x, wanted);
  // Where nothing lies between, the sum is part of the product.
  const Tensor middle = after_attention_ == nullptr ? o_proj_->AddTo(residual, attended)
                                                    : residual + (*after_attention_)((*o_proj_)(attended));
  attended = Tensor();
  const Tensor wide = Normed(middle, before_mlp_);
  if (experts_.has_value()) return middle + Normed((*experts_)(wide), after_mlp_);
  const Tensor gated = feed_forward_->Gated(wide);
  return after_mlp_ == nullptr ? feed_forward_->down().AddTo(middle, gated)
                               : middle + (*after_mlp_)(feed_forward_->down()(gated));
}

}  // namespace distill
