#include "libdistill/nn/decoder_memory.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <memory>

// Elements a token, in the names of decoder.cc: H hidden, Q = A * D of all query heads, K of all key-value heads, F
// feed-forward size.
namespace distill {
namespace {

// The largest piece of memory that a tensor takes while it lives.
class LargestPiece : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*data*/, int64_t bytes, size_t, size_t, c10::Device) override {
    for (int64_t so_far = bytes_; bytes > so_far && !bytes_.compare_exchange_weak(so_far, bytes);) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t bytes() const { return bytes_; }

 private:
  std::atomic<int64_t> bytes_{0};
};

}  // namespace

bool WidensProducts(torch::Dtype dtype) {
  constexpr int64_t kSize = 64;
  const int64_t element_bytes = static_cast<int64_t>(torch::elementSize(dtype));
  if (element_bytes >= static_cast<int64_t>(sizeof(float))) return false;
  const at::Tensor matrix = at::ones({kSize, kSize}, at::TensorOptions(dtype));
  (void)at::mm(matrix, matrix);  // the first product may make what all later ones use
  const auto largest = std::make_shared<LargestPiece>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, largest);
  (void)at::mm(matrix, matrix);
  return largest->bytes() >= kSize * kSize * static_cast<int64_t>(sizeof(float));
}

DecoderMemory MemoryOf(const DecoderConfig& config, const DecoderPass& pass) {
  const int64_t hidden = config.hidden_size, wide = config.intermediate_size;
  const int64_t queries = config.num_attention_heads * config.head_dim;
  const int64_t keys = config.num_key_value_heads * config.head_dim;
  const int64_t attended = pass.several_lengths ? 2 * queries : queries;  // of each group, and all together
  const int64_t heads = config.num_attention_heads;

  // Input, normed, query, keys, values, attended, middle, normed again; gate, up, their product. Where few
  // positions are asked for, the last block keeps less. Of float32 numbers both norms' scales, and attention's sum of
  // exponentials of each head.
  // With dropout attention keeps query, keys and values in float32, the latter two repeated for all heads, and each
  // head's matrix three times: the probabilities, what is dropped of them, and what is left.
  const bool drops = pass.dropped_length > 0;
  const int64_t matrix = heads * pass.dropped_length;
  const int64_t block = 4 * hidden + (drops ? 0 : queries + 2 * keys) + attended + 3 * wide;
  const int64_t block_floats = 2 + (drops ? 3 * queries + 3 * matrix : heads);
  const auto bytes = [&](int64_t elements, int64_t floats) {
    return pass.tokens * (elements * pass.element_bytes + floats * static_cast<int64_t>(sizeof(float)));
  };
  // Beside the blocks': the last block's output, the final norm's scale and result; the angles' cosines and sines.
  const int64_t ends = bytes(2 * hidden + config.head_dim, 1);
  const int64_t layers = config.num_hidden_layers;

  DecoderMemory memory;
  // Input, normed, attended, middle, normed again, output; and what the feed-forward part has of its own.
  const int64_t least = 4 * hidden + queries + 2 * wide + config.head_dim;  // when the second wide product is made
  memory.forward_bytes = bytes(least + wide + hidden, pass.widens ? hidden : 0);
  if (pass.widens) memory.forward_bytes = std::max(memory.forward_bytes, bytes(least, wide));
  // The gradient that came, the one that goes, those of two wide products at a time, and one of a weight.
  const int64_t weight = std::max(wide, queries) * hidden;
  const int64_t widened = pass.widens ? std::max(weight, pass.tokens * wide) * static_cast<int64_t>(sizeof(float)) : 0;
  int64_t gradients = bytes(2 * hidden + 2 * wide, 0) + weight * pass.element_bytes + widened;
  // Those of a matrix as probabilities, before and after what is dropped, and of query, keys and values.
  if (drops) gradients = std::max(gradients, bytes(2 * hidden, 3 * matrix + 3 * queries));
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
