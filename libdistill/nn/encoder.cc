#include "libdistill/nn/encoder.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/nn/attention.h"
#include "libdistill/nn/layers.h"
#include "libdistill/nn/token_layout.h"

// Shapes: P tokens in the flat order of token_layout.h, H hidden, A heads, D head size, F feed-forward size, V
// vocabulary. Inside, a model works on [P, H].
namespace distill {
namespace {

using torch::Tensor;
using torch::TensorOptions;

// Where a family keeps its layers. Those of a block follow `block` and its number.
struct LayerNames {
  const char *words, *positions, *types, *embedding_norm;
  const char* block;
  const char *query, *key, *value, *output, *attention_norm, *up, *down, *norm;
  const char *head_dense, *head_norm, *head_bias;
};

constexpr LayerNames kBertNames = {.words = "bert.embeddings.word_embeddings",
                                   .positions = "bert.embeddings.position_embeddings",
                                   .types = "bert.embeddings.token_type_embeddings",
                                   .embedding_norm = "bert.embeddings.LayerNorm",
                                   .block = "bert.encoder.layer.",
                                   .query = ".attention.self.query",
                                   .key = ".attention.self.key",
                                   .value = ".attention.self.value",
                                   .output = ".attention.output.dense",
                                   .attention_norm = ".attention.output.LayerNorm",
                                   .up = ".intermediate.dense",
                                   .down = ".output.dense",
                                   .norm = ".output.LayerNorm",
                                   .head_dense = "cls.predictions.transform.dense",
                                   .head_norm = "cls.predictions.transform.LayerNorm",
                                   .head_bias = "cls.predictions"};

constexpr LayerNames kDistilBertNames = {.words = "distilbert.embeddings.word_embeddings",
                                         .positions = "distilbert.embeddings.position_embeddings",
                                         .types = nullptr,
                                         .embedding_norm = "distilbert.embeddings.LayerNorm",
                                         .block = "distilbert.transformer.layer.",
                                         .query = ".attention.q_lin",
                                         .key = ".attention.k_lin",
                                         .value = ".attention.v_lin",
                                         .output = ".attention.out_lin",
                                         .attention_norm = ".sa_layer_norm",
                                         .up = ".ffn.lin1",
                                         .down = ".ffn.lin2",
                                         .norm = ".output_layer_norm",
                                         .head_dense = "vocab_transform",
                                         .head_norm = "vocab_layer_norm",
                                         .head_bias = "vocab_projector"};

struct Bias : torch::nn::Module {
  Bias(int64_t size, const TensorOptions& options) { bias = register_parameter("bias", torch::empty({size}, options)); }
  Tensor bias;
};

// Registers `child` under a path with dots below `root`, with modules that only hold others in between.
template <typename Child>
std::shared_ptr<Child> RegisterAt(torch::nn::Module& root, const std::string& path, std::shared_ptr<Child> child) {
  std::vector<std::string> names = absl::StrSplit(path, '.');
  torch::nn::Module* parent = &root;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    const auto children = parent->named_children();
    const std::shared_ptr<torch::nn::Module>* found = children.find(names[i]);
    parent = found != nullptr ? found->get()
                              : parent->register_module(names[i], std::make_shared<torch::nn::Module>()).get();
  }
  return parent->register_module(names.back(), std::move(child));
}

// Post-norm, as in "Attention Is All You Need".
struct EncoderBlock {
  Tensor Forward(const Tensor& x, const TokenLayout& layout) const {
    const auto heads_of = [&](const Linear& projection) {
      return projection(x).view({x.size(0), num_heads, x.size(1) / num_heads});
    };
    const Tensor attended =
        DocumentAttention(heads_of(*query), heads_of(*key), heads_of(*value), layout, /*is_causal=*/false);
    const Tensor middle = (*attention_norm)(output->AddTo(x, attended));
    return (*norm)(down->AddTo(middle, at::gelu((*up)(middle))));
  }

  std::vector<Tensor> Weights() const {
    std::vector<Tensor> weights;
    const auto add = [&](const std::vector<Tensor>& more) { weights.insert(weights.end(), more.begin(), more.end()); };
    for (const auto& linear : {query, key, value, output, up, down}) add(linear->parameters());
    for (const auto& layer_norm : {attention_norm, norm}) add(layer_norm->parameters());
    return weights;
  }

  int64_t num_heads;
  std::shared_ptr<Linear> query, key, value, output, up, down;
  std::shared_ptr<LayerNorm> attention_norm, norm;
};

}  // namespace

struct Encoder::Layers {
  Layers(const EncoderConfig& c, const TensorOptions& options, Encoder& root, bool blocks_later) {
    const LayerNames& names = c.model_type == "bert" ? kBertNames : kDistilBertNames;
    const auto linear = [&](const std::string& path, int64_t in, int64_t out) {
      return RegisterAt(root, path, std::make_shared<Linear>(in, out, /*has_bias=*/true, options));
    };
    const auto layer_norm = [&](const std::string& path) {
      return RegisterAt(root, path, std::make_shared<LayerNorm>(c.hidden_size, c.layer_norm_eps, options));
    };
    const auto embedding = [&](const std::string& path, int64_t rows) {
      return RegisterAt(root, path, std::make_shared<Embedding>(rows, c.hidden_size, options));
    };
    words = embedding(names.words, c.vocab_size);
    positions = embedding(names.positions, c.max_position_embeddings);
    if (c.type_vocab_size > 0) types = embedding(names.types, c.type_vocab_size);
    embedding_norm = layer_norm(names.embedding_norm);
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
      const std::string at = absl::StrCat(names.block, i);
      const int64_t h = c.hidden_size, f = c.intermediate_size;
      blocks.push_back(
          std::make_shared<EncoderBlock>(EncoderBlock{.num_heads = c.num_attention_heads,
                                                      .query = linear(at + names.query, h, h),
                                                      .key = linear(at + names.key, h, h),
                                                      .value = linear(at + names.value, h, h),
                                                      .output = linear(at + names.output, h, h),
                                                      .up = linear(at + names.up, h, f),
                                                      .down = linear(at + names.down, f, h),
                                                      .attention_norm = layer_norm(at + names.attention_norm),
                                                      .norm = layer_norm(at + names.norm)}));
      if (blocks_later) DropMemory(blocks.back()->Weights());
    }
    head_bias = RegisterAt(root, names.head_bias, std::make_shared<Bias>(c.vocab_size, options));
    head_dense = linear(names.head_dense, c.hidden_size, c.hidden_size);
    head_norm = layer_norm(names.head_norm);
  }

  // The words' rows, [P, H] -> [P, H]
  Tensor Embed(const Tensor& rows, const TokenLayout& layout) const {
    Tensor x = rows + at::embedding(positions->weight, layout.positions);
    if (types != nullptr) x = x + types->weight.select(0, 0);
    return (*embedding_norm)(x);
  }

  std::shared_ptr<Embedding> words, positions, types;  // types: null where the family has none
  std::shared_ptr<LayerNorm> embedding_norm, head_norm;
  std::vector<std::shared_ptr<const EncoderBlock>> blocks;
  std::shared_ptr<Linear> head_dense;
  std::shared_ptr<Bias> head_bias;
};

Encoder::Encoder(const EncoderConfig& config, const TensorOptions& options, bool blocks_later)
    : config_(config), layers_(std::make_shared<Layers>(config, options, *this, blocks_later)) {}

Encoder::Encoder(const EncoderConfig& config, uint64_t seed) : Encoder(config, seed, /*blocks_later=*/false) {}

Encoder::Encoder(const EncoderConfig& config, uint64_t seed, bool blocks_later)
    : Encoder(config, TensorOptions(torch::kFloat32), blocks_later) {
  InitialiseWeights(*this, config.initializer_range, seed);
  const torch::NoGradGuard no_grad;
  if (config.pad_token_id >= 0) layers_->words->weight.select(0, config.pad_token_id).zero_();
}

Encoder::~Encoder() = default;

Tensor Encoder::Hidden(const TokenInput& input) {
  const auto layout = LayoutOf(input);  // a checkpoint keeps it
  TORCH_CHECK(layout->max_length <= config_.max_position_embeddings, "a document has ", layout->max_length,
              " tokens, the model positions for ", config_.max_position_embeddings);
  Tensor ids = input.input_ids.reshape({-1});
  if (layout->source.defined()) ids = ids.index_select(0, layout->source);
  BeginPass();
  Tensor x = layers_->Embed(LookUp(layers_->words->weight, ids, config_.pad_token_id), *layout);
  for (size_t i = 0; i < layers_->blocks.size(); ++i) {
    const auto forward = [block = layers_->blocks[i], layout](const Tensor& before) {
      return block->Forward(before, *layout);
    };
    x = RunBlock(i, forward, x, checkpoints_);
  }
  return ToBatchOrder(x, *layout, input.input_ids.size(0), input.input_ids.size(1));
}

Tensor Encoder::HeadInput(const Tensor& hidden) const {
  return (*layers_->head_norm)(at::gelu((*layers_->head_dense)(hidden)));
}

Tensor Encoder::head_weight() const { return layers_->words->weight; }

Tensor Encoder::head_bias() const { return layers_->head_bias->bias; }

std::vector<std::vector<Tensor>> Encoder::BlockWeights() const {
  std::vector<std::vector<Tensor>> weights;
  for (const auto& block : layers_->blocks) weights.push_back(block->Weights());
  return weights;
}

}  // namespace distill
