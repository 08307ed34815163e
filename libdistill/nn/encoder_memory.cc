#include "libdistill/nn/encoder_memory.h"

#include <algorithm>

#include "libdistill/nn/variable_length_attention.h"

// Elements a token, in the names of encoder_body.cc: H hidden, A heads, F feed-forward size.
namespace distill {
namespace {

constexpr int64_t kFloat = sizeof(float);

// What is kept of `hidden` numbers that are dropped, beside them.
int64_t DroppedBytes(const ModelPass& pass, double probability, int64_t hidden) {
  return pass.drops && pass.on_gpu && probability > 0 ? pass.tokens * hidden : 0;
}

bool AttendsInGroups(const EncoderConfig& config, const ModelPass& pass) {
  const int64_t head_size = config.hidden_size / std::max<int64_t>(1, config.num_attention_heads);
  const bool at_once = pass.on_gpu && pass.element_bytes == 2 &&
                       HasVariableLengths(head_size, pass.drops ? config.attention_dropout : 0);
  return pass.several_lengths && !at_once;
}

struct Counted {
  int64_t block, ends;
};

Counted CountKept(const EncoderConfig& config, EncoderUse use, const ModelPass& pass) {
  const int64_t hidden = config.hidden_size, wide = config.intermediate_size, heads = config.num_attention_heads;
  const auto bytes = [&](int64_t elements, int64_t floats) {
    return pass.tokens * (elements * pass.element_bytes + floats * kFloat);
  };
  const int64_t attended = AttendsInGroups(config, pass) ? 2 * hidden : hidden;  // of each group, and all together
  // Input, query, keys, values, both sums and the middle, before and after the wide function; of each head attention's
  // sum of exponentials, and both norms' means and scales.
  const bool widens = pass.drops && pass.drops_in_float32 && config.attention_dropout > 0;
  const int64_t attention = 3 * hidden;
  const int64_t block =
      bytes(4 * hidden + (widens ? 0 : attention) + attended + 2 * wide, (widens ? attention : 0) + heads + 4);
  const int64_t dropped_parts = (config.model_type == "distilbert" ? 0 : 1) + 1;
  // The embeddings' sum and its norm's two numbers, and the last block's output.
  int64_t ends = bytes(2 * hidden, 2) + DroppedBytes(pass, config.hidden_dropout, hidden);
  if (pass.several_lengths) ends += bytes(hidden, 0);
  // Before and after the head's function, and normed.
  if (use == EncoderUse::kWords) ends += bytes(3 * hidden, 2);
  if (use == EncoderUse::kSpan) ends += bytes(2, 0) + DroppedBytes(pass, config.span_dropout, hidden);
  return {block + dropped_parts * DroppedBytes(pass, config.hidden_dropout, hidden), ends};
}

}  // namespace

PassMemory MemoryOf(const EncoderConfig& config, EncoderUse use, const ModelPass& pass) {
  const int64_t hidden = config.hidden_size, wide = config.intermediate_size, layers = config.num_hidden_layers;
  const auto bytes = [&](int64_t elements, int64_t floats) {
    return pass.tokens * (elements * pass.element_bytes + floats * kFloat);
  };
  const auto scratch = [&](int64_t rows, int64_t in, int64_t out) {
    return pass.scratch == nullptr ? 0 : pass.scratch(rows, in, out);
  };
  const Counted counted = CountKept(config, use, pass);
  PassMemory memory{.attends_in_groups = AttendsInGroups(config, pass)};
  // Input, attended, middle and output; the wide states before and after their function.
  const int64_t most_scratch = std::max(scratch(pass.tokens, wide, hidden), scratch(pass.tokens, hidden, wide));
  memory.forward_bytes = bytes(4 * hidden + 2 * wide, 0) + most_scratch;
  if (use == EncoderUse::kSpan) memory.output_bytes = bytes(2, 0);
  // The gradient that came, the one that goes, those of both wide states, and one of a weight.
  const int64_t of_products = bytes(2 * hidden + 2 * wide, 0) + wide * hidden * pass.element_bytes +
                              std::max(most_scratch, scratch(wide, pass.tokens, hidden));
  // Or in flash kernels as a decoder's: the one that came, those of what was attended, of query, keys and values, and
  // of the query once more in float32.
  const int64_t heads = std::max<int64_t>(1, config.num_attention_heads);
  const int64_t of_flash = bytes(5 * hidden, heads * WideHeadSize(hidden / heads));
  const int64_t gradients = std::max(of_products, pass.on_gpu && pass.element_bytes == 2 ? of_flash : 0);
  if (pass.recomputes) {
    memory.kept_bytes = layers * bytes(hidden, 0) + counted.ends;
    memory.backward_bytes = counted.block + gradients;
  } else {
    memory.kept_bytes = layers * counted.block + counted.ends;
    memory.backward_bytes = gradients;
  }
  return memory;
}

}  // namespace distill
