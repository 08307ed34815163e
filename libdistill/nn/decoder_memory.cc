#include "libdistill/nn/decoder_memory.h"

#include <algorithm>

#include "libdistill/nn/variable_length_attention.h"

// Elements a token, in the names of decoder.cc: H hidden, Q = A * D of all query heads, K of all key-value heads, F
// feed-forward size.
namespace distill {

namespace {

// Of each token: elements of the model's type, and float32 numbers.
struct Numbers {
  int64_t elements = 0, floats = 0;
};

int64_t QuerySize(const DecoderConfig& config) { return config.num_attention_heads * config.head_dim; }
int64_t KeySize(const DecoderConfig& config) { return config.num_key_value_heads * config.head_dim; }

// Cosines and sines of all ropes.
int64_t AngleElements(const DecoderConfig& config) {
  int64_t elements = 0;
  for (const RopeConfig& rope : config.ropes) elements += rope.RotatedOf(config.head_dim);
  return elements;
}

// Whether attention on CPUs goes by tiles in any layer, which make float16 float32.
bool TakesTiles(const DecoderConfig& config, const ModelPass& pass) {
  const auto has_window = [](const DecoderLayer& layer) { return layer.window > 0; };
  const bool is_plain = config.attention_softcap == 0 && !config.attention_sinks &&
                        std::none_of(config.layers.begin(), config.layers.end(), has_window);
  return !pass.on_gpu && (!is_plain || (pass.drops && config.attention_dropout > 0));
}

bool AttendsInGroups(const DecoderConfig& config, const ModelPass& pass) {
  const bool at_once = pass.on_gpu && pass.element_bytes == 2 && config.attention_softcap == 0 &&
                       !config.attention_sinks &&
                       HasVariableLengths(config.head_dim, pass.drops ? config.attention_dropout : 0);
  return pass.several_lengths && !at_once;
}

// What a block keeps for its backward pass. Input and middle, and one more for each norm: what comes out of those
// before a branch, and what goes into those after one. Query, keys and values, and what goes into norms of theirs;
// attended; gate, up and their product. Of float32 numbers the norms' scales, and attention's sum of exponentials of
// each head. Where few positions are asked for, the last block keeps less.
Numbers KeptByBlock(const DecoderConfig& config, const ModelPass& pass) {
  const BlockNorms& names = config.block_norms;
  int64_t norms = 0;
  for (const char* name : {names.before_attention, names.after_attention, names.before_mlp, names.after_mlp}) {
    norms += *name == 0 ? 0 : 1;
  }
  const int64_t queries = QuerySize(config), keys = KeySize(config), attention = queries + 2 * keys;
  const int64_t attended = AttendsInGroups(config, pass) ? 2 * queries : queries;  // of each group, and all together
  const bool widens = TakesTiles(config, pass) && pass.drops_in_float32;
  Numbers kept;
  kept.elements = (2 + norms) * config.hidden_size + (widens ? 0 : attention) + attended + 3 * config.intermediate_size;
  kept.floats = (widens ? attention : 0) + norms + config.num_attention_heads;
  const bool has_own_norms = config.query_key_norm != QueryKeyNorm::kNone;
  if (has_own_norms || config.fuses_projections) kept.elements += queries + keys;  // fused: values keep all three
  if (has_own_norms) {
    const bool is_whole = config.query_key_norm == QueryKeyNorm::kWhole;
    kept.floats += is_whole ? 2 : config.num_attention_heads + config.num_key_value_heads;
  }
  return kept;
}

// What experts take in a pass without gradients, at the most: each token's states for each of its experts, what they
// give, and all tokens in one of them.
int64_t ExpertElements(const DecoderConfig& config) {
  const ExpertsConfig& experts = config.experts;
  if (experts.count == 0) return 0;
  return (2 * experts.per_token + 2) * config.hidden_size + 4 * std::max(experts.size, experts.shared_size);
}

}  // namespace

PassMemory MemoryOf(const DecoderConfig& config, const ModelPass& pass) {
  const int64_t hidden = config.hidden_size, wide = config.intermediate_size, queries = QuerySize(config);
  const Numbers block = KeptByBlock(config, pass);
  const auto bytes = [&](int64_t elements, int64_t floats) {
    return pass.tokens * (elements * pass.element_bytes + floats * static_cast<int64_t>(sizeof(float)));
  };
  // Beside the blocks': the last block's output, the final norm's scale and result; the angles.
  const int64_t ends = bytes(2 * hidden + AngleElements(config), 1);
  const int64_t layers = config.num_hidden_layers;

  PassMemory memory{.attends_in_groups = AttendsInGroups(config, pass)};
  const auto scratch = [&](int64_t rows, int64_t in, int64_t out) {
    return pass.scratch == nullptr ? 0 : pass.scratch(rows, in, out);
  };
  // Input, middle, normed again, and gate, up and their product, or two of those while the second is made; or the
  // product, what it becomes and the output; or query, keys and values as they are and rotated, or what experts take.
  const int64_t least = (*config.block_norms.before_mlp == 0 ? 2 : 3) * hidden + AngleElements(config);
  const int64_t attending = 2 * hidden + 2 * queries + 2 * KeySize(config) + AngleElements(config);
  memory.forward_bytes =
      std::max({bytes(least + 3 * wide, 0), bytes(least + 2 * wide, 0) + scratch(pass.tokens, hidden, wide),
                bytes(least + wide + 2 * hidden, 0) + scratch(pass.tokens, wide, hidden), bytes(attending, 0),
                bytes(least + ExpertElements(config), 0)});
  // The gradient that came, the one that goes, those of two wide products at a time, and one of a weight.
  const int64_t weight = std::max(wide, queries) * hidden;
  const int64_t most_scratch =
      std::max(scratch(std::max(wide, queries), pass.tokens, hidden), scratch(pass.tokens, hidden, wide));
  const int64_t of_products = bytes(2 * hidden + 2 * wide, 0) + weight * pass.element_bytes + most_scratch;
  // Or in flash kernels, beside the one that came: those of what was attended, of query, keys and values, of the keys
  // and values of each query head before they are added up, and of the query once more in float32, without
  // the 128 tokens that each document has more there.
  const bool is_grouped = config.num_key_value_heads != config.num_attention_heads;
  const int64_t wide_queries = config.num_attention_heads * WideHeadSize(config.head_dim);
  const int64_t of_flash = bytes(hidden + (is_grouped ? 4 : 2) * queries + 2 * KeySize(config), wide_queries);
  const int64_t gradients = std::max(of_products, pass.on_gpu && pass.element_bytes == 2 ? of_flash : 0);
  if (pass.recomputes) {
    memory.kept_bytes = layers * bytes(hidden, 0) + ends;
    memory.backward_bytes = bytes(block.elements, block.floats) + gradients;
  } else {
    memory.kept_bytes = layers * bytes(block.elements, block.floats) + ends;
    memory.backward_bytes = gradients;
  }
  return memory;
}

}  // namespace distill
