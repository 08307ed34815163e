#include "libdistill/nn/key_value_cache.h"

#include <torch/types.h>

#include <algorithm>

namespace distill {
namespace {

constexpr int64_t kFirstCapacity = 64;

// Writes `added` behind the first `length` tokens, in a buffer twice as large where it does not fit.
torch::Tensor AppendTo(torch::Tensor& buffer, const torch::Tensor& added, int64_t length) {
  const int64_t end = length + added.size(2);
  if (!buffer.defined() || buffer.size(2) < end) {
    const int64_t capacity = std::max({kFirstCapacity, end, 2 * length});
    torch::Tensor larger = torch::empty({added.size(0), added.size(1), capacity, added.size(3)}, added.options());
    if (length > 0) larger.narrow(2, 0, length).copy_(buffer.narrow(2, 0, length));
    buffer = larger;
  }
  buffer.narrow(2, length, added.size(2)).copy_(added);
  return buffer.narrow(2, 0, end);
}

}  // namespace

std::pair<torch::Tensor, torch::Tensor> KeyValueCache::Append(int64_t layer, const torch::Tensor& keys,
                                                              const torch::Tensor& values) {
  Layer& target = layers_.at(layer);
  return {AppendTo(target.keys, keys, length_), AppendTo(target.values, values, length_)};
}

void KeyValueCache::KeepRows(const torch::Tensor& rows) {
  for (Layer& layer : layers_) {
    if (!layer.keys.defined()) continue;
    layer.keys = layer.keys.index_select(0, rows);
    layer.values = layer.values.index_select(0, rows);
  }
}

}  // namespace distill
