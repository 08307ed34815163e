#include "libdistill/nn/decoder_memory.h"

#include <algorithm>

// Elements a token, in the names of decoder.cc: H hidden, Q = A * D of all query heads, K of all key-value heads, F
// feed-forward size.
namespace distill {

DecoderMemory MemoryOf(const DecoderConfig& config, const DecoderPass& pass) {
  const int64_t hidden = config.hidden_size, wide = config.intermediate_size;
  const int64_t queries = config.num_attention_heads * config.head_dim;
  const int64_t keys = config.num_key_value_heads * config.head_dim;
  const int64_t attended = pass.several_lengths ? 2 * queries : queries;  // of each group, and all together
  // float32 numbers a token: both norms' scales, and attention's sum of exponentials of each head.
  const int64_t scales = 2 + config.num_attention_heads;

  // Input, normed, query, keys, values, attended, middle, normed again; gate, up, their product. Where few
  // positions are asked for, the last block keeps less.
  const int64_t block = 4 * hidden + queries + 2 * keys + attended + 3 * wide;
  const auto bytes = [&](int64_t elements, int64_t floats) {
    return pass.tokens * (elements * pass.element_bytes + floats * static_cast<int64_t>(sizeof(float)));
  };
  // Beside the blocks': the last block's output, the final norm's scale and result; the angles' cosines and sines.
  const int64_t ends = bytes(2 * hidden + config.head_dim, 1);
  const int64_t layers = config.num_hidden_layers;

  DecoderMemory memory;
  // Input, normed, attended, middle, normed again, output; and what the feed-forward part has of its own.
  memory.forward_bytes = bytes(5 * hidden + queries + 3 * wide + config.head_dim, 0);
  // The gradient that came, the one that goes, those of two wide products at a time, and one of a weight.
  const int64_t gradients = bytes(2 * hidden + 2 * wide, 0) + std::max(wide, queries) * hidden * pass.element_bytes;
  if (pass.recomputes) {
    memory.kept_bytes = layers * bytes(hidden, 0) + ends;
    memory.backward_bytes = bytes(block, scales) + gradients;
  } else {
    memory.kept_bytes = layers * bytes(block, scales) + ends;
    memory.backward_bytes = gradients;
  }
  return memory;
}

}  // namespace distill
