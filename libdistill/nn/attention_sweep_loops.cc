// The loops of attention_sweep.h, compiled once for each kind of CPU.
#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/core/vectors.h"
#include "libdistill/nn/attention_sweep.h"
#include "libdistill/nn/drop_factors.h"

namespace distill {
namespace {

// Where a row is, and which of its keys here it sees.
struct Row {
  int64_t place;  // among all queries of all heads
  int64_t head;   // of its document
  int64_t begin, seen;
};

inline Row RowAt(const ScoreRows& r, int64_t row) {
  const int64_t head = r.first_head + row / r.queries, query = r.first_query + row % r.queries;
  int64_t seen = r.keys;
  if (r.real_keys != nullptr && r.real_keys[head / r.heads] - r.first_key < seen) {
    seen = r.real_keys[head / r.heads] - r.first_key;
  }
  if (r.is_causal && query + 1 - r.first_key < seen) seen = query + 1 - r.first_key;
  const int64_t before = r.window > 0 ? query + 1 - r.window - r.first_key : 0;  // those that have left the window
  if (seen < 0) seen = 0;
  return {head * r.tokens + query, head % r.heads, before < 0 ? 0 : Smaller(before, seen), seen};
}

// What becomes of a product.
template <typename V>
inline V Capped(const ScoreRows& r, V product) {
  return r.softcap * Tanh(product * (r.scale / r.softcap));
}

// f(vector or float, i, factors of i) for the keys that a row sees, block by block.
template <typename F>
inline void ForKept(const ScoreRows& r, const Row& row, F&& f) {
  const int64_t blocks = (r.tokens + kDropBlock - 1) / kDropBlock;
  float factors[kDropBlock];
  for (float& factor : factors) factor = 1;
  for (int64_t first = 0; first < row.seen; first += kDropBlock) {
    if (r.dropping.threshold > 0) {
      FillDropFactors(r.dropping, static_cast<uint64_t>(row.place * blocks + (r.first_key + first) / kDropBlock),
                      factors);
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
    float *powers = r.scratch, *first = powers + row.begin;
    const int64_t count = row.seen - row.begin;
    if (r.softcap > 0) {
      ForEach(row.seen,
              [&](auto v, int64_t k) { Store(powers + k, Capped(r, Load<decltype(v)>(scores + k)) * kLog2E); });
    } else {
      ForEach(row.seen, [&](auto v, int64_t k) { Store(powers + k, Load<decltype(v)>(scores + k) * to_base_2); });
    }
    float largest = count > 0 ? Largest(first, count) : 0;
    const float sink = r.sinks == nullptr ? 0 : r.sinks[row.head] * kLog2E;
    if (r.sinks != nullptr) largest = count > 0 ? Larger(largest, sink) : sink;
    Sum sum;
    ForEach(count, [&](auto v, int64_t k) {
      const auto power = Exp2(Load<decltype(v)>(first + k) - largest);
      sum.Add(power);
      Store(first + k, power);
    });
    if (r.sinks != nullptr) sum.Add(Exp2(sink - largest));
    Clear(powers, 0, row.begin);
    const float total = static_cast<float>(sum.Total()), inverse = count > 0 ? 1 / total : 0;
    r.log_sums[row.place] = count > 0 ? largest + Log2(total) : 0;
    ForKept(r, row, [&](auto v, int64_t k, auto factor) {
      Store(scores + k, Load<decltype(v)>(powers + k) * (inverse * factor));
    });
    Clear(scores, row.seen, r.keys);
  }
}

// Keys that have left the window stand for another one that is seen, with no gradient, until they are cleared.
template <typename T>
void FillBefore(const Row& row, T* scores, T* gradients) {
  for (int64_t k = 0; k < row.begin; ++k) scores[k] = scores[row.begin], gradients[k] = 0;
}

template <typename T>
void ProbabilitiesAgain(const ScoreRows& r, int64_t begin, int64_t end) {
  const float to_base_2 = r.scale * kLog2E;
  const int64_t width = (r.keys + kDropBlock - 1) / kDropBlock * kDropBlock;
  for (int64_t i = begin; i < end; ++i) {
    const Row row = RowAt(r, i);
    T *scores = static_cast<T*>(r.scores) + i * r.keys, *gradients = static_cast<T*>(r.gradients) + i * r.keys;
    const float log_sum = r.log_sums[row.place];
    float *kept = r.scratch, *through = kept + width, *slopes = through + width;
    if (row.begin < row.seen) FillBefore(row, scores, gradients);
    if (r.softcap > 0) {  // slopes first: scores are written over
      ForEach(row.seen, [&](auto v, int64_t k) {
        const auto t = Tanh(Load<decltype(v)>(scores + k) * (r.scale / r.softcap));
        Store(slopes + k, r.scale * (1.0f - t * t));
      });
    }
    Sum sum;
    const auto keep = [&](int64_t k, auto p, auto factor) {
      using V = decltype(p);
      const V g = Load<V>(gradients + k) * factor;
      sum.Add(p * g);
      Store(kept + k, p);
      Store(through + k, g);
      Store(scores + k, p * factor);
    };
    if (r.softcap > 0) {
      ForKept(r, row, [&](auto v, int64_t k, auto factor) {
        keep(k, Exp2(Capped(r, Load<decltype(v)>(scores + k)) * kLog2E - log_sum), factor);
      });
    } else {
      ForKept(r, row, [&](auto v, int64_t k, auto factor) {
        keep(k, Exp2(Load<decltype(v)>(scores + k) * to_base_2 - log_sum), factor);
      });
    }
    const float mean = static_cast<float>(sum.Total());
    ForEach(row.seen, [&](auto v, int64_t k) {
      using V = decltype(v);
      const V of_score = Load<V>(kept + k) * (Load<V>(through + k) - mean);
      Store(gradients + k, r.softcap > 0 ? of_score * Load<V>(slopes + k) : of_score * r.scale);
    });
    Clear(scores, 0, row.begin);
    Clear(gradients, 0, row.begin);
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
