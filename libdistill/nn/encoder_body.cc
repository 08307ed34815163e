#include "libdistill/nn/encoder_body.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libdistill/nn/attention.h"
#include "libdistill/nn/dropout.h"
#include "libdistill/nn/layers.h"
#include "libdistill/nn/token_layout.h"
#include "libdistill/nn/variable_length_attention.h"

// Shapes: B rows, T tokens, P tokens in the flat order of token_layout.h, H hidden, A heads, D head size, F
// feed-forward size, V vocabulary. Inside, a body works on [P, H].
namespace distill {
namespace {

using torch::Tensor;
using torch::TensorOptions;

// Where a family keeps its layers. Those of a block follow `block` and its number.
struct LayerNames {
  const char *words, *positions, *types, *embedding_norm;
  const char* block;
  const char *query, *key, *value, *output, *attention_norm, *up, *down, *norm;
};

// RoBERTa's too.
constexpr LayerNames kBertNames = {.words = "embeddings.word_embeddings",
                                   .positions = "embeddings.position_embeddings",
                                   .types = "embeddings.token_type_embeddings",
                                   .embedding_norm = "embeddings.LayerNorm",
                                   .block = "encoder.layer.",
                                   .query = ".attention.self.query",
                                   .key = ".attention.self.key",
                                   .value = ".attention.self.value",
                                   .output = ".attention.output.dense",
                                   .attention_norm = ".attention.output.LayerNorm",
                                   .up = ".intermediate.dense",
                                   .down = ".output.dense",
                                   .norm = ".output.LayerNorm"};

constexpr LayerNames kDistilBertNames = {.words = "embeddings.word_embeddings",
                                         .positions = "embeddings.position_embeddings",
                                         .types = nullptr,
                                         .embedding_norm = "embeddings.LayerNorm",
                                         .block = "transformer.layer.",
                                         .query = ".attention.q_lin",
                                         .key = ".attention.k_lin",
                                         .value = ".attention.v_lin",
                                         .output = ".attention.out_lin",
                                         .attention_norm = ".sa_layer_norm",
                                         .up = ".ffn.lin1",
                                         .down = ".ffn.lin2",
                                         .norm = ".output_layer_norm"};

// What a block drops: of the attention's probabilities, and of what its two parts add to the states.
struct BlockDropout {
  double probabilities, attended, wide;
};

// Post-norm, as in "Attention Is All You Need".
struct EncoderBlock {
  Tensor Forward(const Tensor& x, const TokenLayout& layout, const BlockDropout& dropout) const {
    const auto heads_of = [&](const Linear& projection) {
      return projection(x).view({x.size(0), num_heads, x.size(1) / num_heads});
    };
    const Tensor attended = DocumentAttention(heads_of(*query), heads_of(*key), heads_of(*value), layout,
                                              /*is_causal=*/false, dropout.probabilities);
    const Tensor middle = (*attention_norm)(AddDropped(x, (*output)(attended), dropout.attended));
    const Tensor wide = (*down)(at::gelu((*up)(middle)));
    return (*norm)(AddDropped(middle, wide, dropout.wide));
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

// BERT's first folders call the weight and bias of a LayerNorm so.
std::string WithGammaAndBeta(const std::string& name) {
  return absl::StrReplaceAll(name, {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}});
}

// The pooler and the next-sentence head take no part; positions count from 0 anyway.
bool IsPassedOver(const std::string& name) {
  return absl::StartsWith(name, "bert.pooler.") || absl::StartsWith(name, "roberta.pooler.") ||
         absl::StartsWith(name, "cls.seq_relationship.") || absl::EndsWith(name, ".embeddings.position_ids") ||
         absl::EndsWith(name, ".embeddings.token_type_ids");
}

// Any head of the families that is not this model's, and what no model has a use for.
bool IsOfAnotherHead(const std::string& name) {
  static constexpr const char* kHeads[] = {
      "cls.",        "lm_head.",        "vocab_transform.", "vocab_layer_norm.", "vocab_projector.",
      "classifier.", "pre_classifier.", "qa_outputs.",      "pooler.dense.",     "embeddings.position_ids"};
  return IsPassedOver(name) || std::any_of(std::begin(kHeads), std::end(kHeads),
                                           [&](const char* head) { return absl::StartsWith(name, head); });
}

}  // namespace

struct EncoderBody::Layers {
  Layers(const EncoderConfig& c, const TensorOptions& options, EncoderBody& root, bool blocks_later) {
    const LayerNames& names = c.model_type == "distilbert" ? kDistilBertNames : kBertNames;
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
  }

  std::shared_ptr<Embedding> words, positions, types;  // types: null where the family has none
  std::shared_ptr<LayerNorm> embedding_norm;
  std::vector<std::shared_ptr<const EncoderBlock>> blocks;
};

EncoderBody::EncoderBody(const EncoderConfig& config, const TensorOptions& options, bool blocks_later)
    : config_(config), layers_(std::make_unique<Layers>(config, options, *this, blocks_later)) {}

EncoderBody::~EncoderBody() = default;

// The rows of the tokens' types: [P, H], or [H] where all are of type 0; undefined where the family has none.
Tensor EncoderBody::TypesOf(const TokenInput& input, const TokenLayout& layout) const {
  const bool has_table = layers_->types != nullptr;
  if (!input.token_types.defined()) return has_table ? layers_->types->weight.select(0, 0) : Tensor();
  TORCH_CHECK(input.token_types.sizes() == input.input_ids.sizes() && input.token_types.scalar_type() == torch::kInt64,
              "token_types ", input.token_types.sizes(), " of ", input.token_types.scalar_type(),
              " must be int64 and of the shape of input_ids, ", input.input_ids.sizes());
  if (!has_table) {
    TORCH_CHECK(!input.token_types.any().item<bool>(), "token_types must be 0: a ", config_.model_type,
                " model has no embedding of token types");
    return {};
  }
  Tensor types = input.token_types.reshape({-1});
  if (types.is_cpu() && types.numel() > 0) {
    const int64_t largest = types.max().item<int64_t>();
    TORCH_CHECK(largest < config_.type_vocab_size, "token type ", largest, ", but the model has ",
                config_.type_vocab_size);
  }
  if (layout.source.defined()) types = types.index_select(0, layout.source);
  return at::embedding(layers_->types->weight, types);
}

// int64 [P]: which rows of the positions' table the tokens have. RoBERTa counts those that are no padding, from the
// position behind the padding's own, which those that are (a random token of a mask may be one) have all.
Tensor EncoderBody::PositionsOf(const Tensor& ids, const TokenLayout& layout) const {
  if (config_.model_type != "roberta") return layout.positions;
  const Tensor counts = ids.ne(config_.pad_token_id).to(torch::kInt64), up_to = counts.cumsum(0);
  const Tensor first = torch::arange(ids.size(0), ids.options()) - layout.positions;  // of each token's document
  const Tensor before = (up_to - counts).index_select(0, first);
  return (up_to - before) * counts + config_.pad_token_id;
}

// int64 [P] -> [P, H]
Tensor EncoderBody::Embed(const Tensor& ids, const TokenInput& input, const TokenLayout& layout,
                          const std::shared_ptr<GradientSink>& sink) const {
  const int64_t padded_position = config_.model_type == "roberta" ? config_.pad_token_id : -1;
  Tensor x = layers_->words->LookUp(ids, config_.pad_token_id, sink) +
             at::embedding(layers_->positions->weight, PositionsOf(ids, layout), padded_position);
  if (const Tensor types = TypesOf(input, layout); types.defined()) x = x + types;
  return Dropout((*layers_->embedding_norm)(x), DropoutNow(config_.hidden_dropout));
}

Tensor EncoderBody::Hidden(const TokenInput& input, const GatedModel& model, const std::shared_ptr<GradientSink>& sink,
                           bool recomputes) const {
  const Tensor& words = layers_->words->weight;
  const bool in_order = TakesVariableLengths({.device = words.device(),
                                              .dtype = words.scalar_type(),
                                              .head_size = config_.hidden_size / config_.num_attention_heads,
                                              .dropout = DropoutNow(config_.attention_dropout)});
  const auto layout = LayoutOf(input, in_order);  // a checkpoint keeps it
  TORCH_CHECK(layout->max_length <= config_.most_tokens(), "a document has ", layout->max_length,
              " tokens, the model positions for ", config_.most_tokens());
  Tensor ids = input.input_ids.reshape({-1});
  if (layout->source.defined()) ids = ids.index_select(0, layout->source);
  model.BeginPass();
  Tensor x = Embed(ids, input, *layout, sink);
  const double hidden = DropoutNow(config_.hidden_dropout);
  const BlockDropout dropout = {.probabilities = DropoutNow(config_.attention_dropout),
                                .attended = config_.model_type == "distilbert" ? 0 : hidden,  // it has none there
                                .wide = hidden};
  for (size_t i = 0; i < layers_->blocks.size(); ++i) {
    const auto forward = [block = layers_->blocks[i], layout, dropout](const Tensor& before) {
      return block->Forward(before, *layout, dropout);
    };
    x = model.RunBlock(i, forward, x, recomputes);
  }
  return ToBatchOrder(x, *layout, input.input_ids.size(0), input.input_ids.size(1));
}

Tensor EncoderBody::words() const { return layers_->words->weight; }

Tensor EncoderBody::positions() const { return layers_->positions->weight; }

void EncoderBody::CopyEmbeddings(const EncoderBody& other) {
  const Layers &ours = *layers_, &theirs = *other.layers_;
  ours.words->weight.copy_(theirs.words->weight);
  ours.positions->weight.copy_(theirs.positions->weight);
  ours.embedding_norm->weight.copy_(theirs.embedding_norm->weight);
  ours.embedding_norm->bias.copy_(theirs.embedding_norm->bias);
  if (ours.types != nullptr && theirs.types != nullptr) {
    ours.types->weight.copy_(theirs.types->weight);
  } else if (theirs.types != nullptr) {
    ours.positions->weight.add_(theirs.types->weight.select(0, 0).to(ours.positions->weight));
  }
}

std::vector<std::vector<Tensor>> EncoderBody::BlockWeights() const {
  std::vector<std::vector<Tensor>> weights;
  for (const auto& block : layers_->blocks) weights.push_back(block->Weights());
  return weights;
}

std::string EncoderPrefix(const EncoderConfig& config) { return config.model_type; }

void InitialiseEncoder(torch::nn::Module& model, const EncoderBody& body, uint64_t seed) {
  InitialiseWeights(model, {.range = body.config().initializer_range}, seed);
  const torch::NoGradGuard no_grad;
  const int64_t padding = body.config().pad_token_id;
  if (padding >= 0) body.words().select(0, padding).zero_();
  if (body.config().model_type == "roberta") body.positions().select(0, padding).zero_();
}

WeightNames EncoderNames(const EncoderConfig& config) {
  WeightNames names{.model_type = config.model_type,
                    .is_passed_over = IsPassedOver,
                    .others = [](const std::string& name) { return std::vector<std::string>{WithGammaAndBeta(name)}; }};
  if (config.model_type == "bert") {
    names.tied = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                  {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  } else if (config.model_type == "roberta") {
    names.tied = {{"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"},
                  {"lm_head.decoder.bias", "lm_head.bias"}};
  } else {
    names.tied = {{"vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"}};
  }
  return names;
}

WeightNames EncoderNamesWithHead(const EncoderConfig& config, std::vector<std::string> heads, uint64_t seed) {
  const auto others = [prefix = absl::StrCat(EncoderPrefix(config), ".")](const std::string& name) {
    const std::string bare(absl::StripPrefix(name, prefix));
    std::vector<std::string> names = {WithGammaAndBeta(name)};
    if (bare != name) names.insert(names.end(), {bare, WithGammaAndBeta(bare)});
    return names;
  };
  return {.model_type = config.model_type,
          .is_passed_over = IsOfAnotherHead,
          .others = others,
          .drawn = {.paths = std::move(heads), .range = config.initializer_range, .seed = seed}};
}

}  // namespace distill
