// The loops of layer_sweep.h, compiled once for each kind of CPU.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "libdistill/core/vector_math.h"
#include "libdistill/core/vectors.h"
#include "libdistill/nn/drop_factors.h"
#include "libdistill/nn/layer_sweep.h"

namespace distill {
namespace {

// T is float, or uint16_t for bfloat16.
template <typename T>
inline const T* Elements(const void* values) {
  return static_cast<const T*>(values);
}
template <typename T>
inline T* Elements(void* values) {
  return static_cast<T*>(values);
}

// What a T can hold of it.
template <typename T, typename V>
inline V Rounded(V value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    T stored[sizeof(V) / sizeof(float)];
    Store(stored, value);
    return Load<V>(stored);
  }
}

template <typename T>
void Norm(const NormRows& r, int64_t begin, int64_t end) {
  const T* weight = Elements<T>(r.weight);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = Elements<T>(r.input) + row * r.size;
    T* out = Elements<T>(r.output) + row * r.size;
    Sum squares;
    ForEach(r.size, [&](auto v, int64_t i) {
      const auto value = Load<decltype(v)>(x + i);
      squares.Add(value * value);
    });
    const float scale = static_cast<float>(
        1 / std::sqrt(squares.Total() / static_cast<double>(r.size) + static_cast<double>(r.epsilon)));
    r.scales[row] = scale;
    if (r.rounds) {
      ForEach(r.size, [&](auto v, int64_t i) {
        using V = decltype(v);
        Store(out + i, Rounded<T>(Load<V>(x + i) * scale) * Load<V>(weight + i));
      });
    } else {
      ForEach(r.size, [&](auto v, int64_t i) {
        using V = decltype(v);
        Store(out + i, Load<V>(x + i) * scale * (Load<V>(weight + i) + r.offset));
      });
    }
  }
}

template <typename T>
void NormGradient(const NormRows& r, int64_t begin, int64_t end) {
  const T* weight = Elements<T>(r.weight);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = Elements<T>(r.input) + row * r.size;
    const T* gradient = Elements<T>(r.gradient) + row * r.size;
    const float scale = r.scales[row];
    Sum products;
    ForEach(r.size, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V product = Load<V>(gradient + i) * (Load<V>(x + i) * scale);
      products.Add(product * (Load<V>(weight + i) + r.offset));
      if (r.weight_gradient != nullptr) Store(r.weight_gradient + i, Load<V>(r.weight_gradient + i) + product);
    });
    if (r.input_gradient == nullptr) continue;
    T* out = Elements<T>(r.input_gradient) + row * r.size;
    const float mean = static_cast<float>(products.Total() / static_cast<double>(r.size));
    ForEach(r.size, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V y = Load<V>(x + i) * scale;
      Store(out + i, (Load<V>(gradient + i) * (Load<V>(weight + i) + r.offset) - y * mean) * scale);
    });
  }
}

// What the gate becomes, and how much that changes with it.
template <typename V>
struct Activated {
  V value, slope;
};

template <typename V>
inline Activated<V> Silu(V x) {
  const V sigmoid = Sigmoid(x), silu = x * sigmoid;
  return {silu, sigmoid + silu * (1.0f - sigmoid)};
}

template <typename V>
inline Activated<V> GeluByTanh(V x) {
  constexpr float kScale = 0.7978845608f, kCube = 0.044715f;  // sqrt(2 / pi)
  const V square = x * x, t = Tanh(kScale * (x + kCube * square * x)), half = 0.5f * (1.0f + t);
  return {x * half, half + 0.5f * x * (1.0f - t * t) * (kScale * (1.0f + 3.0f * kCube * square))};
}

constexpr auto kSilu = [](auto x) { return Silu(x); };
constexpr auto kGelu = [](auto x) { return GeluByTanh(x); };

template <typename T, auto activate>
void GateBy(const GatedRows& g, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T *gate = Elements<T>(g.gate) + row * g.row_stride, *up = Elements<T>(g.up) + row * g.row_stride;
    T* out = Elements<T>(g.output) + row * g.size;
    ForEach(g.size, [&](auto v, int64_t i) {
      using V = decltype(v);
      Store(out + i, activate(Load<V>(gate + i)).value * Load<V>(up + i));
    });
  }
}

template <typename T>
void Gated(const GatedRows& g, int64_t begin, int64_t end) {
  g.is_gelu ? GateBy<T, kGelu>(g, begin, end) : GateBy<T, kSilu>(g, begin, end);
}

template <typename T, auto activate>
void GateGradientBy(const GatedRows& g, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row * g.row_stride;
    const T *gate = Elements<T>(g.gate) + first, *up = Elements<T>(g.up) + first;
    const T* gradient = Elements<T>(g.gradient) + row * g.size;
    T *of_gate = Elements<T>(g.gate_gradient) + first, *of_up = Elements<T>(g.up_gradient) + first;
    ForEach(g.size, [&](auto v, int64_t i) {
      using V = decltype(v);
      const V incoming = Load<V>(gradient + i);
      const Activated<V> activated = activate(Load<V>(gate + i));
      Store(of_gate + i, incoming * Load<V>(up + i) * activated.slope);
      Store(of_up + i, incoming * activated.value);
    });
  }
}

template <typename T>
void GatedGradient(const GatedRows& g, int64_t begin, int64_t end) {
  g.is_gelu ? GateGradientBy<T, kGelu>(g, begin, end) : GateGradientBy<T, kSilu>(g, begin, end);
}

template <typename T>
void Rotate(const RotatedRows& r, int64_t begin, int64_t end) {
  const float sign = r.back ? -1.0f : 1.0f;
  for (int64_t row = begin; row < end; ++row) {
    const T *cos = Elements<T>(r.cos) + row * r.half, *sin = Elements<T>(r.sin) + row * r.half;
    for (int64_t head = 0; head < r.heads; ++head) {
      const T* x = Elements<T>(r.input) + row * r.row_stride + head * r.head_stride;
      T* out = Elements<T>(r.output) + (row * r.heads + head) * r.size;
      ForEach(r.half, [&](auto v, int64_t i) {
        using V = decltype(v);
        const V x1 = Load<V>(x + i), x2 = Load<V>(x + r.half + i), c = Load<V>(cos + i), s = Load<V>(sin + i) * sign;
        Store(out + i, x1 * c - x2 * s);
        Store(out + r.half + i, x2 * c + x1 * s);
      });
      Copy(x + 2 * r.half, r.size - 2 * r.half, out + 2 * r.half);
    }
  }
}

template <typename T>
void Drop(const DroppedElements& d, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    float factors[kDropBlock];
    FillDropFactors(d.dropping, static_cast<uint64_t>(block), factors);
    const int64_t first = block * kDropBlock, left = d.size - first;
    const T* input = Elements<T>(d.input) + first;
    const T* residual = d.residual == nullptr ? nullptr : Elements<T>(d.residual) + first;
    T* out = Elements<T>(d.output) + first;
    ForEach(Smaller(left, kDropBlock), [&](auto v, int64_t i) {
      using V = decltype(v);
      const V value = Load<V>(input + i) * Load<V>(factors + i);
      Store(out + i, residual == nullptr ? value : Load<V>(residual + i) + value);
    });
  }
}

template <auto floats, auto bfloats>
struct ByType {
  template <typename Work>
  static void Run(const Work& work, int64_t begin, int64_t end) {
    work.dtype == DType::kFloat32 ? floats(work, begin, end) : bfloats(work, begin, end);
  }
};

constexpr LayerSweeps kLoops = {
    .norm = ByType<Norm<float>, Norm<uint16_t>>::Run<NormRows>,
    .norm_gradient = ByType<NormGradient<float>, NormGradient<uint16_t>>::Run<NormRows>,
    .gated = ByType<Gated<float>, Gated<uint16_t>>::Run<GatedRows>,
    .gated_gradient = ByType<GatedGradient<float>, GatedGradient<uint16_t>>::Run<GatedRows>,
    .rotate = ByType<Rotate<float>, Rotate<uint16_t>>::Run<RotatedRows>,
    .drop = ByType<Drop<float>, Drop<uint16_t>>::Run<DroppedElements>,
};

}  // namespace

const LayerSweeps DISTILL_FOR_ITS_CPU(kLayerSweeps) = kLoops;

}  // namespace distill
