#include "libdistill/nn/decoder_memory.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

// Elements a token, in the names of decoder.cc: H hidden, Q = A * D of all query heads, K of all key-value heads, F
// feed-forward size.
namespace distill {
namespace {

// The most bytes that tensors take together while it lives, of those made since.
class MostBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*data*/, int64_t bytes, size_t, size_t, c10::Device) override {
    const int64_t now = now_ += bytes;  // below 0 when memory is given back
    for (int64_t so_far = most_; now > so_far && !most_.compare_exchange_weak(so_far, now);) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most() const { return most_; }

 private:
  std::atomic<int64_t> now_{0}, most_{0};
};

int64_t MeasureScratch(torch::Dtype dtype, int64_t rows, int64_t in, int64_t out) {
  const at::TensorOptions options(dtype);
  const at::Tensor left = at::ones({rows, in}, options), right = at::ones({out, in}, options).t();
  (void)at::mm(left, right);  // the first product may make what all later ones use
  const auto most = std::make_shared<MostBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, most);
  const at::Tensor product = at::mm(left, right);
  return std::max<int64_t>(0, most->most() - static_cast<int64_t>(product.nbytes()));
}

int64_t ScratchOf(torch::Dtype dtype, int64_t rows, int64_t in, int64_t out) {
  constexpr int64_t kMost = 2048;
  static std::mutex mutex;
  static auto* const known = new std::map<std::tuple<torch::Dtype, int64_t, int64_t, int64_t>, int64_t>();
  const int64_t some_rows = std::min(rows, kMost), some_out = std::min(out, kMost);
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [found, is_new] = known->try_emplace({dtype, some_rows, std::min(in, kMost), some_out});
  if (is_new) found->second = MeasureScratch(dtype, some_rows, std::min(in, kMost), some_out);
  // A copy of the result grows with it; what a kernel packs are blocks.
  const int64_t copy = some_rows * some_out * static_cast<int64_t>(sizeof(float));
  return found->second >= copy ? found->second / some_rows * rows / some_out * out : found->second;
}

}  // namespace

ProductScratch ScratchOnCpu(torch::Dtype dtype) {
  constexpr int64_t kSmall = 64;
  // Where small products take nothing, as those of float32, none do; and without instructions larger ones take long.
  if (dtype == torch::kFloat32 || MeasureScratch(dtype, kSmall, kSmall, kSmall) == 0) return nullptr;
  return [dtype](int64_t rows, int64_t in, int64_t out) { return ScratchOf(dtype, rows, in, out); };
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
  const auto scratch = [&](int64_t rows, int64_t in, int64_t out) {
    return pass.scratch == nullptr ? 0 : pass.scratch(rows, in, out);
  };
  memory.forward_bytes = std::max(bytes(least + wide + hidden, 0) + scratch(pass.tokens, wide, hidden),
                                  bytes(least, 0) + scratch(pass.tokens, hidden, wide));
  // The gradient that came, the one that goes, those of two wide products at a time, and one of a weight.
  const int64_t weight = std::max(wide, queries) * hidden;
  const int64_t most_scratch =
      std::max(scratch(std::max(wide, queries), pass.tokens, hidden), scratch(pass.tokens, hidden, wide));
  int64_t gradients = bytes(2 * hidden + 2 * wide, 0) + weight * pass.element_bytes + most_scratch;
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
