// What one forward and backward pass of a language model works on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace distill {

constexpr int32_t kIgnoreLabel = -100;

struct SentTokens;  // task/token_tensors.h

// `rows` sequences, padded on the right to `length`. A row holds one document, or several one after another (packing).
// labels[i] is the token that follows input_ids[i] in its document, or kIgnoreLabel: shifted here, once, for all.
struct TokenBatch {
  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int32_t> input_ids;  // [rows, length]
  std::vector<int32_t> labels;     // [rows, length]
  // For each row the starts of its documents and, last, the end of its tokens (padding follows): [0, ..., tokens].
  std::vector<std::vector<int64_t>> document_starts;
  std::vector<int64_t> sample_ids;         // which samples of the data set lie in it, in order
  std::shared_ptr<const SentTokens> sent;  // the same on the GPU that trains, where that was sent ahead; or null

  int64_t num_loss_tokens() const;  // labels that are not ignored
  int64_t num_tokens() const;       // without padding
};

}  // namespace distill
