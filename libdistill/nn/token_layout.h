// The order in which a model works on the tokens of a batch; inside nn/ only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/types.h>

#include "libdistill/nn/language_model.h"
#include "libdistill/nn/rotary.h"

namespace distill {

// All of a model but its attention works on single tokens, and attention works within one document. So the documents of
// all rows are sorted by length, those of about the same length are laid one under the other as a rectangle,
// right-padded to its longest, and the rectangles follow one another: P tokens in a flat order. Attention then runs
// on each rectangle, a view of the flat tokens: it cannot see another document, no mask is needed but against padding
// where it is not causal, and the padding of the batch's rows costs nothing. A batch whose rows are whole documents is
// one rectangle in its own order, without copies.
//
// Where attention takes documents of any lengths at once (variable_length_attention.h), they stay in the batch's order
// and nothing is padded; rectangles are then neighbours of one length, and full rows need no copies.
struct TokenLayout {
  struct Rectangle {
    int64_t documents;
    int64_t length;
    std::vector<int64_t> real_lengths = {};  // of its documents, where some are shorter
  };
  std::vector<Rectangle> rectangles;
  torch::Tensor positions;  // int64 [P], within the document
  // int32 [N + 1]: where the N documents begin, and P; what pads a document is counted as one by itself.
  torch::Tensor begins;
  int64_t max_length = 0;
  // Undefined when the flat order is the batch's own.
  torch::Tensor source;  // int64 [P]: the token of the batch, of B * T; padding names the document's first
  torch::Tensor real;    // bool [P, 1]: false for padding; undefined when there is none
  torch::Tensor target;  // int64 [B * T]: the place of each token of the batch; padding names any
  // The other one of the same batch, in its order, of layouts that are sorted; null: there is none.
  std::shared_ptr<const TokenLayout> in_order = nullptr;
};

// The input's own, or a new one; `in_order`: that one where the input has it. Throws c10::Error when document_starts do
// not fit input_ids.
std::shared_ptr<const TokenLayout> LayoutOf(const TokenInput& input, bool in_order = false);

// The documents in the flat order.
std::vector<DocumentSpan> SpansOf(const TokenLayout& layout);

// Rows `places`, int64 [N] and each another one, of flat [P, H] as [N, H]. Differentiable.
torch::Tensor RowsAt(const torch::Tensor& flat, const torch::Tensor& places);

// flat [P, H] -> [B, T, H]. Differentiable.
torch::Tensor ToBatchOrder(const torch::Tensor& flat, const TokenLayout& layout, int64_t rows, int64_t tokens);

}  // namespace distill
