// The loops of row_products.h, compiled once for each kind of CPU.
//
// A panel is a few vectors' worth of columns of W^T, packed step by step: what one instruction multiplies of each
// column, 4 bytes (a float32, or two bfloat16 of which the instruction adds both products), column beside column. A
// tile is some rows times a panel: its sums stay in registers over all steps, and each step loads the panel's vectors
// once and of each row 4 bytes, which it multiplies with all of them. So the packed matrix is read from end to end,
// once for each tile's rows, and with as many rows as sums find registers arithmetic is what bounds it, not memory.
#include <cstdint>

#include "libdistill/core/vector_math.h"
#include "libdistill/core/vectors.h"
#include "libdistill/nn/row_products.h"

namespace distill {
namespace {

constexpr int kVectors = 3;  // of a panel
constexpr int64_t kPanel = kVectors * kWidth;
// With the panel's vectors and a row's numbers as many as there are registers: 32 or 16.
constexpr int64_t kTileRows = kWidth == 16 ? 8 : 4;

// Step: 4 bytes, as bits.
struct Floats {
  using Element = float;
  static constexpr int64_t kPerStep = 1;
  static uint32_t Step(const float* values, int64_t, int64_t) { return BitCast<uint32_t>(*values); }
  static void AddProduct(FloatVector x, FloatVector w, FloatVector& sum) { sum += x * w; }
};

#if defined(__AVX512F__)
struct BFloats {
  using Element = uint16_t;
  static constexpr int64_t kPerStep = 2;
  // Of the last step of an odd number of inputs there is but one.
  static uint32_t Step(const uint16_t* values, int64_t stride, int64_t left) {
    const uint32_t second = left > 1 ? values[stride] : 0;
    return second << 16 | values[0];
  }
  // Not by its intrinsic: these loops are compiled for CPUs without AVX512-BF16 too, which run the others alone.
  static void AddProduct(FloatVector x, FloatVector w, FloatVector& sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
  }
};
#endif

template <typename P>
int64_t StepsOf(const MatrixView& m) {
  return (m.in + P::kPerStep - 1) / P::kPerStep;
}

template <typename P>
void Pack(const MatrixView& m, void* packed, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 16;  // steps; a cache line of a column, where its inputs lie side by side
  const int64_t steps = StepsOf<P>(m);
  for (int64_t panel = begin; panel < end; ++panel) {
    const auto* first = static_cast<const typename P::Element*>(m.weight) + panel * kPanel * m.out_stride;
    uint32_t* to = static_cast<uint32_t*>(packed) + panel * kPanel * steps;
    const int64_t columns = Smaller(kPanel, m.out - panel * kPanel);
    if (columns < kPanel) {
      for (int64_t i = 0; i < kPanel * steps; ++i) to[i] = 0;
    }
    const auto pack = [&](int64_t step, int64_t column, int64_t out_stride, int64_t in_stride) {
      const int64_t input = step * P::kPerStep;
      to[step * kPanel + column] = P::Step(first + column * out_stride + input * in_stride, in_stride, m.in - input);
    };
    for (int64_t block = 0; block < steps; block += kBlock) {
      const int64_t block_end = Smaller(steps, block + kBlock);
      if (m.in_stride == 1) {
        for (int64_t column = 0; column < columns; ++column) {
          for (int64_t step = block; step < block_end; ++step) pack(step, column, m.out_stride, 1);
        }
      } else {
        for (int64_t step = block; step < block_end; ++step) {
          for (int64_t column = 0; column < columns; ++column) pack(step, column, m.out_stride, m.in_stride);
        }
      }
    }
  }
}

// Of one tile: whole panels of y and of the bias.
struct TileOutput {
  float* y = nullptr;
  int64_t stride = 0;
  const float* bias = nullptr;
  bool adds = false;
};

template <typename P, int kRows>
void MultiplyTile(const MatrixView& m, const float* panel, const typename P::Element* x, const TileOutput& out) {
  FloatVector sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 3
    for (int i = 0; i < kVectors; ++i) {
      const float* start = out.adds ? out.y + row * out.stride : out.bias;
      sums[row][i] = start == nullptr ? FloatVector{} : Load<FloatVector>(start + i * kWidth);
    }
  }
  const auto step = [&](int64_t input, int64_t left) __attribute__((always_inline)) {
    FloatVector w[kVectors];
#pragma GCC unroll 3
    for (int i = 0; i < kVectors; ++i) w[i] = Load<FloatVector>(panel + i * kWidth);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const FloatVector value = BitCast<FloatVector>(BitVector{} + P::Step(x + row * m.in + input, 1, left));
#pragma GCC unroll 3
      for (int i = 0; i < kVectors; ++i) P::AddProduct(value, w[i], sums[row][i]);
    }
    panel += kPanel;
  };
  int64_t input = 0;
  for (; input + P::kPerStep <= m.in; input += P::kPerStep) step(input, P::kPerStep);
  if (input < m.in) step(input, m.in - input);
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 3
    for (int i = 0; i < kVectors; ++i) Store(out.y + row * out.stride + i * kWidth, sums[row][i]);
  }
}

template <typename P, int kRows = 1>
void MultiplyTile(const MatrixView& m, const float* panel, const typename P::Element* x, int64_t rows,
                  const TileOutput& out) {
  if constexpr (kRows < kTileRows) {
    if (rows > kRows) return MultiplyTile<P, kRows + 1>(m, panel, x, rows, out);
  }
  MultiplyTile<P, kRows>(m, panel, x, out);
}

// The last panel, whose columns are fewer.
template <typename P>
void MultiplyPart(const MatrixView& m, const float* panel, const typename P::Element* x, int64_t rows, int64_t columns,
                  const TileOutput& out) {
  float y[kTileRows * kPanel] = {}, bias[kPanel] = {};
  if (out.bias != nullptr) Copy(out.bias, columns, bias);
  for (int64_t row = 0; out.adds && row < rows; ++row) {
    Copy(out.y + row * out.stride, columns, y + row * kPanel);
  }
  MultiplyTile<P>(m, panel, x, rows, {y, kPanel, bias, out.adds});
  for (int64_t row = 0; row < rows; ++row) Copy(y + row * kPanel, columns, out.y + row * out.stride);
}

template <typename P>
void Multiply(const MatrixView& m, const void* packed, const RowProduct& p, int64_t begin, int64_t end) {
  const int64_t steps = StepsOf<P>(m);
  for (int64_t index = begin; index < end; ++index) {
    const float* panel = static_cast<const float*>(packed) + index * kPanel * steps;
    const int64_t column = index * kPanel, columns = Smaller(kPanel, m.out - column);
    for (int64_t row = 0; row < p.rows; row += kTileRows) {
      const int64_t rows = Smaller(kTileRows, p.rows - row);
      const auto* x = static_cast<const typename P::Element*>(p.x) + row * m.in;
      const TileOutput out = {p.y + row * m.out + column, m.out, p.bias == nullptr ? nullptr : p.bias + column, p.adds};
      if (columns == kPanel) {
        MultiplyTile<P>(m, panel, x, rows, out);
      } else {
        MultiplyPart<P>(m, panel, x, rows, columns, out);
      }
    }
  }
}

template <typename P>
constexpr RowProductLoops kLoops = {.panel = kPanel, .per_step = P::kPerStep, .pack = Pack<P>, .multiply = Multiply<P>};

}  // namespace

const RowProductLoops DISTILL_FOR_ITS_CPU(kRowProducts) = kLoops<Floats>;
#if defined(__AVX512F__)
const RowProductLoops DISTILL_FOR_ITS_CPU(kBFloatRowProducts) = kLoops<BFloats>;
#endif

}  // namespace distill
