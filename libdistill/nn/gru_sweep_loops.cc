// The loops of gru_sweep.h, compiled once for each kind of CPU.
#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/core/vectors.h"
#include "libdistill/nn/gru_sweep.h"

namespace distill {
namespace {

void Forward(const GruFrame& f, int64_t begin, int64_t end) {
  const int64_t size = f.size;
  for (int64_t row = begin; row < end; ++row) {
    const float *x = f.of_frame + row * 3 * size, *s = f.of_state + row * 3 * size;
    float *state = f.state + row * size, *output = f.output + row * size;
    float* kept = f.kept == nullptr ? nullptr : f.kept + row * 4 * size;
    ForEach(size, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V reset = Sigmoid(Load<V>(x + i) + Load<V>(s + i));
      const V update = Sigmoid(Load<V>(x + size + i) + Load<V>(s + size + i));
      const V of_state = Load<V>(s + 2 * size + i);
      const V proposal = Tanh(Load<V>(x + 2 * size + i) + reset * of_state);
      const V after = proposal + update * (Load<V>(state + i) - proposal);
      Store(state + i, after);
      Store(output + i, after);
      if (kept == nullptr) return;
      Store(kept + i, reset);
      Store(kept + size + i, update);
      Store(kept + 2 * size + i, proposal);
      Store(kept + 3 * size + i, of_state);
    });
  }
}

void Backward(const GruFrameGradient& f, int64_t begin, int64_t end) {
  const int64_t size = f.size;
  for (int64_t row = begin; row < end; ++row) {
    const float *kept = f.kept + row * 4 * size, *before = f.before + row * size, *output = f.output + row * size;
    float *state = f.state + row * size, *x = f.of_frame + row * 3 * size, *s = f.of_state + row * 3 * size;
    ForEach(size, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V reset = Load<V>(kept + i), update = Load<V>(kept + size + i), proposal = Load<V>(kept + 2 * size + i);
      const V after = Load<V>(output + i) + Load<V>(state + i);
      const V of_proposal = after * (1.0f - update) * (1.0f - proposal * proposal);
      const V of_reset = of_proposal * Load<V>(kept + 3 * size + i) * reset * (1.0f - reset);
      const V of_update = after * (Load<V>(before + i) - proposal) * update * (1.0f - update);
      Store(x + i, of_reset);
      Store(x + size + i, of_update);
      Store(x + 2 * size + i, of_proposal);
      Store(s + i, of_reset);
      Store(s + size + i, of_update);
      Store(s + 2 * size + i, of_proposal * reset);
      Store(state + i, after * update);
    });
  }
}

constexpr GruSweeps kLoops = {.forward = Forward, .backward = Backward};

}  // namespace

const GruSweeps DISTILL_FOR_ITS_CPU(kGruSweeps) = kLoops;

}  // namespace distill
