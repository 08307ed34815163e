// What a layer's attention does beside softmax(query keys^T / sqrt(D)) values; inside nn/ only.
#pragma once

#include <cstdint>

#include <torch/types.h>

namespace distill {

// The fields of nn/decoder_config.h that say so.
struct AttentionTraits {
  double scale = 0;          // of query times key; 0: 1 / sqrt(D)
  double softcap = 0;        // scores become softcap * tanh(score / softcap); 0: they stay
  int64_t window = 0;        // a token sees itself and the window - 1 before it; 0: all before it
  torch::Tensor sinks = {};  // [A]: one more score a head, whose share no token gets; undefined: none

  // Whether LibTorch's fused kernels know it, for documents of at most `length` tokens.
  bool is_plain(int64_t length) const { return softcap == 0 && (window == 0 || window >= length) && !sinks.defined(); }
};

}  // namespace distill
