// Keys and values of the tokens that a decoder has seen, so that each further token costs one step.
//
//   KeyValueCache cache(model.config().num_hidden_layers);
//   torch::Tensor hidden = model.HiddenWithCache(prompt_ids, cache);   // then one token at a time
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace distill {

// Shapes: B rows, K key-value heads, T tokens, D head size.
class KeyValueCache {
 public:
  explicit KeyValueCache(int64_t num_layers) : layers_(num_layers) {}

  // Tokens that every layer holds, and the position of the next one.
  int64_t length() const { return length_; }
  // Appends [B, K, T, D] to a layer and returns all of its keys and values, [B, K, length + T, D], as views that hold
  // until the next call. The new length counts once Advance was called, after the last layer.
  std::pair<torch::Tensor, torch::Tensor> Append(int64_t layer, const torch::Tensor& keys, const torch::Tensor& values);
  void Advance(int64_t tokens) { length_ += tokens; }
  // Keeps these rows (int64 [B'], on the cache's device) in this order and drops the rest.
  void KeepRows(const torch::Tensor& rows);

 private:
  struct Layer {
    torch::Tensor keys, values;  // [B, K, capacity, D]
  };
  std::vector<Layer> layers_;
  int64_t length_ = 0;
};

}  // namespace distill
