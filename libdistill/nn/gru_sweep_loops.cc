// The loops of gru_sweep.h, compiled once for each kind of CPU.
#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/core/vectors.h"
#include "libdistill/nn/gru_sweep.h"

namespace distill {
namespace {

// T is float, or uint16_t for bfloat16.
template <typename T>
void Forward(const GruFrame& f, int64_t begin, int64_t end) {
  const int64_t size = f.size;
  const auto of_row = [&](void* values, int64_t row, int64_t numbers) {
    return values == nullptr ? nullptr : static_cast<T*>(values) + row * numbers * size;
  };
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(f.of_frame) + row * 3 * size;
    const float* s = f.of_state + row * 3 * size;
    float* state = f.state + row * size;
    T *output = of_row(f.output, row, 1), *operand = of_row(f.operand, row, 1), *kept = of_row(f.kept, row, 4);
    ForEach(size, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V reset = Sigmoid(Load<V>(x + i) + Load<V>(s + i));
      const V update = Sigmoid(Load<V>(x + size + i) + Load<V>(s + size + i));
      const V of_state = Load<V>(s + 2 * size + i);
      const V proposal = Tanh(Load<V>(x + 2 * size + i) + reset * of_state);
      const V after = proposal + update * (Load<V>(state + i) - proposal);
      Store(state + i, after);
      Store(output + i, after);
      if (operand != nullptr) Store(operand + i, after);
      if (kept == nullptr) return;
      Store(kept + i, reset);
      Store(kept + size + i, update);
      Store(kept + 2 * size + i, proposal);
      Store(kept + 3 * size + i, of_state);
    });
  }
}

template <typename T>
void Backward(const GruFrameGradient& f, int64_t begin, int64_t end) {
  const int64_t size = f.size;
  const auto input = [&](const void* values, int64_t row, int64_t numbers) {
    return static_cast<const T*>(values) + row * numbers * size;
  };
  for (int64_t row = begin; row < end; ++row) {
    const T *kept = input(f.kept, row, 4), *before = input(f.before, row, 1), *output = input(f.output, row, 1);
    float* state = f.state + row * size;
    T *x = static_cast<T*>(f.of_frame) + row * 3 * size, *s = static_cast<T*>(f.of_state) + row * 3 * size;
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

template <typename T>
constexpr GruSweeps kLoops = {.forward = Forward<T>, .backward = Backward<T>};

}  // namespace

const GruSweeps DISTILL_FOR_ITS_CPU(kGruSweeps) = kLoops<float>;
const GruSweeps DISTILL_FOR_ITS_CPU(kBFloatGruSweeps) = kLoops<uint16_t>;

}  // namespace distill
