// The loops of attention_sweep.h, compiled once for each kind of CPU.
#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/core/vectors.h"
#include "libdistill/nn/attention_sweep.h"
#include "libdistill/nn/drop_factors.h"

namespace distill {
namespace {

// Where a row is, and how many keys it sees.
struct Row {
  int64_t place, seen;  // place: among all queries of all heads
};

inline Row RowAt(const ScoreRows& r, int64_t row) {
  const int64_t head = r.first_head + row / r.queries, query = r.first_query + row % r.queries;
  int64_t seen = r.keys;
  if (r.real_keys != nullptr && r.real_keys[head / r.heads] < seen) seen = r.real_keys[head / r.heads];
  if (r.is_causal && query + 1 < seen) seen = query + 1;
  return {head * r.tokens + query, seen};
}

// f(vector or float, i, factors of i) for the keys that a row sees, block by block.
template <typename F>
inline void ForKept(const ScoreRows& r, const Row& row, F&& f) {
  const int64_t blocks = (r.tokens + kDropBlock - 1) / kDropBlock;
  float factors[kDropBlock];
  for (float& factor : factors) factor = 1;
  for (int64_t first = 0; first < row.seen; first += kDropBlock) {
    if (r.dropping.threshold > 0) {
      FillDropFactors(r.dropping, static_cast<uint64_t>(row.place * blocks + first / kDropBlock), factors);
    }
    const int64_t left = row.seen - first;
    ForEach(Smaller(left, kDropBlock), [&](auto v, int64_t i) { f(v, first + i, Load<decltype(v)>(factors + i)); });
  }
}

template <typename T>
inline void Clear(T* values, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) values[i] = 0;
}

template <typename T>
void Probabilities(const ScoreRows& r, int64_t begin, int64_t end) {
  const float to_base_2 = r.scale * kLog2E;
  for (int64_t i = begin; i < end; ++i) {
    const Row row = RowAt(r, i);
    T* scores = static_cast<T*>(r.scores) + i * r.keys;
    float* powers = r.scratch;
    ForEach(row.seen, [&](auto v, int64_t k) { Store(powers + k, Load<decltype(v)>(scores + k) * to_base_2); });
    const float largest = row.seen > 0 ? Largest(powers, row.seen) : 0;
    Sum sum;
    ForEach(row.seen, [&](auto v, int64_t k) {
      const auto power = Exp2(Load<decltype(v)>(powers + k) - largest);
      sum.Add(power);
      Store(powers + k, power);
    });
    const float total = static_cast<float>(sum.Total()), inverse = row.seen > 0 ? 1 / total : 0;
    r.log_sums[row.place] = row.seen > 0 ? largest + Log2(total) : 0;
    ForKept(r, row, [&](auto v, int64_t k, auto factor) {
      Store(scores + k, Load<decltype(v)>(powers + k) * (inverse * factor));
    });
    Clear(scores, row.seen, r.keys);
  }
}

template <typename T>
void ProbabilitiesAgain(const ScoreRows& r, int64_t begin, int64_t end) {
  const float to_base_2 = r.scale * kLog2E;
  for (int64_t i = begin; i < end; ++i) {
    const Row row = RowAt(r, i);
    T *scores = static_cast<T*>(r.scores) + i * r.keys, *gradients = static_cast<T*>(r.gradients) + i * r.keys;
    const float log_sum = r.log_sums[row.place];
    float *kept = r.scratch, *through = r.scratch + (r.keys + kDropBlock - 1) / kDropBlock * kDropBlock;
    Sum sum;
    ForKept(r, row, [&](auto v, int64_t k, auto factor) {
      using V = decltype(v);
      const V p = Exp2(Load<V>(scores + k) * to_base_2 - log_sum), g = Load<V>(gradients + k) * factor;
      sum.Add(p * g);
      Store(kept + k, p);
      Store(through + k, g);
      Store(scores + k, p * factor);
    });
    const float mean = static_cast<float>(sum.Total());
    ForEach(row.seen, [&](auto v, int64_t k) {
      using V = decltype(v);
      Store(gradients + k, Load<V>(kept + k) * (Load<V>(through + k) - mean) * r.scale);
    });
    Clear(scores, row.seen, r.keys);
    Clear(gradients, row.seen, r.keys);
  }
}

template <auto floats, auto bfloats>
void ByType(const ScoreRows& rows, int64_t begin, int64_t end) {
  rows.dtype == DType::kFloat32 ? floats(rows, begin, end) : bfloats(rows, begin, end);
}

}  // namespace

const AttentionSweeps DISTILL_FOR_ITS_CPU(kAttentionSweeps) = {
    .probabilities = ByType<Probabilities<float>, Probabilities<uint16_t>>,
    .probabilities_again = ByType<ProbabilitiesAgain<float>, ProbabilitiesAgain<uint16_t>>};

}  // namespace distill
