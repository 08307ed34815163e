// What attention does between its matrix products, on CPUs, in one sweep over the scores of some rows, which the cache
// holds: softmax, what is masked and dropped of it, and the way back. float32 or bfloat16, with arithmetic and sums in
// float32; loops for the CPU's widest vectors (core/vectors.h). No LibTorch here; inside nn/ only.
#pragma once

#include <cstdint>

#include "libdistill/core/dtype.h"
#include "libdistill/nn/dropping.h"

namespace distill {

// Some of the queries of some heads, [heads, queries], each with a row of scores of S of T keys. Heads are counted
// through all documents, of T queries and T keys each.
struct ScoreRows {
  DType dtype = DType::kFloat32;
  int64_t keys = 0;         // S
  int64_t first_key = 0;    // the first of them, a multiple of kDropBlock
  int64_t queries = 0;      // of a head here
  int64_t first_head = 0;   // the first here
  int64_t first_query = 0;  // in its head
  int64_t tokens = 0;       // T
  // The keys that a document has, of heads `heads` / D each; null: T. Further ones are seen by none.
  const int64_t* real_keys = nullptr;
  int64_t heads = 0;  // of a document
  bool is_causal = false;
  int64_t window = 0;  // above 0: a query sees at most so many keys, the last ones of those that it would see
  float scale = 1;     // of scores
  float softcap = 0;   // above 0: scores, scaled, become softcap * tanh(score / softcap)
  // [heads]: one more score of each head of a document, whose share no key gets; null: none. A constant to gradients.
  const float* sinks = nullptr;
  Dropping dropping = {};  // of threshold 0: none
  // [heads * queries, S]: query times key, unscaled. Then the probabilities, of which some are dropped and the others
  // larger for it.
  void* scores = nullptr;
  float* log_sums = nullptr;  // [all heads, T], base 2, of what softmax divides by; written by probabilities
  // Of probabilities_again: of the loss by what it writes to scores, and then by the unscaled products.
  void* gradients = nullptr;
  float* scratch = nullptr;  // [3 * S rounded up to kDropBlock], of the caller's thread
};

struct AttentionSweeps {
  void (*probabilities)(const ScoreRows& rows, int64_t begin, int64_t end);
  // With p the probabilities, f the factor of what is dropped or kept, and g the gradient of p * f:
  //   gradient of a product = scale * p * (f * g - sum over the row of p * f * g)
  // and with a cap times 1 - tanh(score / softcap)^2.
  void (*probabilities_again)(const ScoreRows& rows, int64_t begin, int64_t end);
};
// This CPU's. `dtype` must be one of the two, or the process ends.
const AttentionSweeps& AttentionSweepsFor(DType dtype);

// Inside attention_sweep*.cc only, which see no types of other headers: see core/vector_math.h.
extern const AttentionSweeps kAttentionSweepsPlain, kAttentionSweepsAvx2, kAttentionSweepsAvx512;

}  // namespace distill
