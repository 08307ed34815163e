// Keys and values of the tokens that a decoder has seen, so that each further token costs one step. Rows may be of
// different lengths: each begins with its own first token, and nothing that lies behind a shorter one is ever seen.
//
//   KeyValueCache cache(model.config());
//   torch::Tensor last = model.LastHidden({{1, 2, 3}, {4}}, cache);  // then further tokens of the same rows
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/types.h>

#include "libdistill/nn/attention_traits.h"
#include "libdistill/nn/decoder_config.h"
#include "libdistill/nn/rotary.h"

namespace distill {

struct TokenLayout;

// Shapes: B rows, P tokens of all rows in a flat order, T the most that one row gets, S the most that one row then has,
// A query heads, K key-value heads (divides A), D head size.
class KeyValueCache {
 public:
  explicit KeyValueCache(const DecoderConfig& config)
      : layers_(config.num_hidden_layers), heads_(config.num_key_value_heads) {}

  // Further tokens of every row, on their way through the layers.
  struct Pass {
    torch::Tensor ids;        // int64 [P]
    torch::Tensor positions;  // int64 [P], within their row
    torch::Tensor last;   // int64 [B]: the place in P of each row's last token; undefined where these are all, in order
    int64_t longest = 0;  // S
    std::vector<DocumentSpan> documents;  // in the flat order

    torch::Tensor slots;                        // int64 [P * K]: where their keys go, of B * K * capacity
    std::shared_ptr<const TokenLayout> layout;  // the flat order of a first pass; null in later ones
    int64_t most = 0;                           // T, in later passes, as the rest
    torch::Tensor places;  // int64 [P]: in B * T, where a row may be padded; undefined where none is
    torch::Tensor limits;  // int64 [B, 1, T, 1]: the last key that a query sees; undefined where each sees all
  };

  // How many tokens each row holds, as of the last Advance.
  const std::vector<int64_t>& lengths() const { return lengths_; }
  // The next pass: at least one more token for each row (throws c10::Error otherwise). The first one says how many rows
  // there are.
  Pass Begin(const std::vector<std::vector<int32_t>>& tokens, torch::Device device);
  // Stores keys and values [P, K, D] of a layer, and lets query [P, A, D] attend, each token to its row's until itself:
  // [P, A * D].
  torch::Tensor Attend(int64_t layer, const Pass& pass, const torch::Tensor& query, const torch::Tensor& keys,
                       const torch::Tensor& values, const AttentionTraits& traits = {});
  // Ends the pass, after the last layer: its tokens count.
  void Advance();
  // The last row takes the place of this one, whose tokens are gone: one row is copied, and nothing else.
  void DropRow(int64_t row);

 private:
  struct Layer {
    torch::Tensor keys, values;  // [B, K, capacity, D]
  };
  void LayOutFirst(const std::vector<std::vector<int32_t>>& tokens, torch::Device device, Pass& pass) const;
  void LayOutLater(const std::vector<std::vector<int32_t>>& tokens, torch::Device device, Pass& pass) const;
  void Store(const torch::Tensor& slots, const torch::Tensor& added, torch::Tensor& buffer) const;

  static torch::Tensor SeenOf(const Pass& pass, int64_t window);
  // The place in B * K * capacity of these tokens' heads.
  torch::Tensor SlotsOf(const torch::Tensor& rows, const torch::Tensor& positions) const;

  std::vector<Layer> layers_;
  int64_t heads_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> next_lengths_;  // after the pass
  int64_t capacity_ = 0;               // tokens that a row has room for
};

}  // namespace distill
