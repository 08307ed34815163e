#include "libdistill/nn/decoder_memory.h"

#include <algorithm>

// Elements a token, in the names of decoder.cc: H hidden, Q = A * D of all query heads, K of all key-value heads, F
// feed-forward size.
namespace distill {

PassMemory MemoryOf(const DecoderConfig& config, const ModelPass& pass) {
  const int64_t hidden = config.hidden_size, wide = config.intermediate_size;
  const int64_t queries = config.num_attention_heads * config.head_dim;
  const int64_t keys = config.num_key_value_heads * config.head_dim;
  const int64_t attended = pass.several_lengths ? 2 * queries : queries;  // of each group, and all together
  const int64_t heads = config.num_attention_heads;

  // Input, normed, query, keys, values, attended, middle, normed again; gate, up, their product. Where few
  // positions are asked for, the last block keeps less. Of float32 numbers both norms' scales, and attention's sum of
  // exponentials of each head. CPUs repeat keys and values for all heads where probabilities are dropped.
  const bool repeats = pass.drops && config.attention_dropout > 0 && !pass.on_gpu;
  const bool widens = repeats && pass.drops_in_float32;
  const int64_t attention = queries + 2 * (repeats ? queries : keys);
  const int64_t block = 4 * hidden + (widens ? 0 : attention) + attended + 3 * wide;
  const int64_t block_floats = (widens ? attention : 0) + 2 + heads;
  const auto bytes = [&](int64_t elements, int64_t floats) {
    return pass.tokens * (elements * pass.element_bytes + floats * static_cast<int64_t>(sizeof(float)));
  };
  // Beside the blocks': the last block's output, the final norm's scale and result; the angles' cosines and sines.
  const int64_t ends = bytes(2 * hidden + config.head_dim, 1);
  const int64_t layers = config.num_hidden_layers;

  PassMemory memory;
  // Input, normed, attended, middle, normed again, output; and what the feed-forward part has of its own.
  const int64_t least = 4 * hidden + queries + 2 * wide + config.head_dim;  // when the second wide product is made
  const auto scratch = [&](int64_t rows, int64_t in, int64_t out) {
    return pass.scratch == nullptr ? 0 : pass.scratch(rows, in, out);
  };
  memory.forward_bytes = std::max(bytes(least + wide + hidden, 0) + scratch(pass.tokens, wide, hidden),
                                  bytes(least, 0) + scratch(pass.tokens, hidden, wide));
  // The gradient that came, the one that goes, those of two wide products at a time, and one of a weight.
  const int64_t weight = std::max(wide, queries) * hidden;
  const int64_t most_scratch =
      std::max(scratch(std::max(wide, queries), pass.tokens, hidden), scratch(pass.tokens, hidden, wide));
  const int64_t gradients = bytes(2 * hidden + 2 * wide, 0) + weight * pass.element_bytes + most_scratch;
  if (pass.recomputes) {
    memory.kept_bytes = layers * bytes(hidden, 0) + ends;
    memory.backward_bytes = bytes(block, block_floats) + gradients;
  } else {
    memory.kept_bytes = layers * bytes(block, block_floats) + ends;
    memory.backward_bytes = gradients;
  }
  return memory;
}

}  // namespace distill
