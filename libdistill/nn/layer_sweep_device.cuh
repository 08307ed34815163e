// What one thread does in the kernels of layer_sweep_cuda.h; compiled for the host as well, where a test compares it
// with the CPU's loops. The formulas, and where they round, are those of layer_sweep_loops.cc, but for GELU's: the
// sigmoid of 2 u keeps digits that the CPU's (1 + tanh u) / 2 loses, which stays as it is for the bits of seeded runs.
//
// T is float, __nv_bfloat16 or __half. Elements are loaded and stored in groups of kWide, for which pointers and
// distances of rows must be aligned (IsGrouped); a thread takes every `threads`-th group of a row from its own on.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "libdistill/nn/layer_sweep_cuda.h"

namespace distill {

inline __host__ __device__ float WideOf(float value) { return value; }
inline __host__ __device__ float WideOf(__nv_bfloat16 value) { return __bfloat162float(value); }
inline __host__ __device__ float WideOf(__half value) { return __half2float(value); }

inline __host__ __device__ void Narrow(float value, float& to) { to = value; }
inline __host__ __device__ void Narrow(float value, __nv_bfloat16& to) { to = __float2bfloat16_rn(value); }
inline __host__ __device__ void Narrow(float value, __half& to) { to = __float2half_rn(value); }

// What a T can hold of it.
template <typename T>
inline __host__ __device__ float RoundedTo(float value) {
  T stored;
  Narrow(value, stored);
  return WideOf(stored);
}

template <typename T, int kWide>
struct alignas(kWide * sizeof(T)) ElementGroup {
  T values[kWide];
};

// Group i of a row, as float32.
template <typename T, int kWide>
struct WideGroup {
  float values[kWide];

  __host__ __device__ WideGroup(const void* row, int64_t i) {
    const ElementGroup<T, kWide> group = static_cast<const ElementGroup<T, kWide>*>(row)[i];
    for (int j = 0; j < kWide; ++j) values[j] = WideOf(group.values[j]);
  }
  __host__ __device__ float operator[](int j) const { return values[j]; }
};

template <typename T, int kWide>
inline __host__ __device__ void PutGroup(void* row, int64_t i, const float (&values)[kWide]) {
  ElementGroup<T, kWide> group;
  for (int j = 0; j < kWide; ++j) Narrow(values[j], group.values[j]);
  static_cast<ElementGroup<T, kWide>*>(row)[i] = group;
}

// Whether an address or a distance in bytes is a whole number of groups.
template <typename T, int kWide>
inline bool IsGrouped(int64_t bytes) {
  return bytes % static_cast<int64_t>(kWide * sizeof(T)) == 0;
}
template <typename T, int kWide>
inline bool IsGrouped(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % (kWide * sizeof(T)) == 0;
}

// One row of NormRows:
//   scale = ScaleOf(sum over threads of Squares());  Put(scale);
// and of its gradient, with the sums of the weight that only this thread adds to in its places:
//   mean = sum over threads of Products(scale, sums) / size;  PutGradient(scale, mean);
template <typename T, int kWide>
class NormThread {
 public:
  __host__ __device__ NormThread(const NormRows& rows, int64_t row, int first, int threads)
      : rows_(rows), at_(row * rows.size), groups_(rows.size / kWide), first_(first), threads_(threads) {}

  __host__ __device__ float Squares() const {
    float sum = 0;
    for (int64_t i = first_; i < groups_; i += threads_) {
      const Group x = In(rows_.input, i);
      for (int j = 0; j < kWide; ++j) sum += x[j] * x[j];
    }
    return sum;
  }

  __host__ __device__ float ScaleOf(float squares) const {
    return 1.0f / sqrtf(squares / static_cast<float>(rows_.size) + rows_.epsilon);
  }

  __host__ __device__ void Put(float scale) const {
    for (int64_t i = first_; i < groups_; i += threads_) {
      const Group x = In(rows_.input, i), weight(rows_.weight, i);
      float out[kWide];
      for (int j = 0; j < kWide; ++j) {
        const float y = x[j] * scale;
        out[j] = (rows_.rounds ? RoundedTo<T>(y) : y) * (weight[j] + rows_.offset);
      }
      PutGroup<T>(static_cast<T*>(rows_.output) + at_, i, out);
    }
  }

  // `sums`, aligned as groups of float32 are, may be null.
  __host__ __device__ float Products(float scale, float* sums) const {
    float sum = 0;
    for (int64_t i = first_; i < groups_; i += threads_) {
      const Group x = In(rows_.input, i), gradient = In(rows_.gradient, i), weight(rows_.weight, i);
      ElementGroup<float, kWide> products;
      for (int j = 0; j < kWide; ++j) {
        products.values[j] = gradient[j] * (x[j] * scale);
        sum += products.values[j] * (weight[j] + rows_.offset);
      }
      if (sums != nullptr) Add(products, reinterpret_cast<ElementGroup<float, kWide>*>(sums)[i]);
    }
    return sum;
  }

  __host__ __device__ void PutGradient(float scale, float mean) const {
    for (int64_t i = first_; i < groups_; i += threads_) {
      const Group x = In(rows_.input, i), gradient = In(rows_.gradient, i), weight(rows_.weight, i);
      float out[kWide];
      for (int j = 0; j < kWide; ++j) {
        out[j] = (gradient[j] * (weight[j] + rows_.offset) - x[j] * scale * mean) * scale;
      }
      PutGroup<T>(static_cast<T*>(rows_.input_gradient) + at_, i, out);
    }
  }

  // The places of the weight's sums that this thread adds to.
  __host__ __device__ void Clear(float* sums) const {
    for (int64_t i = first_; i < groups_; i += threads_) {
      for (int j = 0; j < kWide; ++j) sums[i * kWide + j] = 0;
    }
  }

 private:
  using Group = WideGroup<T, kWide>;
  __host__ __device__ Group In(const void* rows, int64_t i) const {
    return Group(static_cast<const T*>(rows) + at_, i);
  }

  static __host__ __device__ void Add(const ElementGroup<float, kWide>& group, ElementGroup<float, kWide>& to) {
    ElementGroup<float, kWide> sum = to;  // loaded and stored at once: shared memory serves 16 bytes of a thread so
    for (int j = 0; j < kWide; ++j) sum.values[j] += group.values[j];
    to = sum;
  }

  const NormRows& rows_;
  const int64_t at_, groups_;
  const int first_, threads_;
};

struct DeviceActivated {
  float value, slope;
};

inline __host__ __device__ DeviceActivated ActivatedBy(bool is_gelu, float x) {
  if (is_gelu) {
    constexpr float kScale = 0.7978845608f, kCube = 0.044715f;  // sqrt(2 / pi)
    // (1 + tanh u) / 2 is the sigmoid of 2 u, which keeps its digits where tanh u is near -1.
    const float square = x * x, half = 1.0f / (1.0f + expf(-2.0f * kScale * (x + kCube * square * x)));
    return {x * half, half + 2.0f * x * half * (1.0f - half) * (kScale * (1.0f + 3.0f * kCube * square))};
  }
  const float e = expf(-fabsf(x)), inverse = 1.0f / (1.0f + e);
  const float sigmoid = x < 0 ? e * inverse : inverse, silu = x * sigmoid;
  return {silu, sigmoid + silu * (1.0f - sigmoid)};
}

// Group i of a row.
template <typename T, int kWide>
inline __host__ __device__ void GateGroup(const GatedRows& rows, int64_t row, int64_t i) {
  const WideGroup<T, kWide> gate(static_cast<const T*>(rows.gate) + row * rows.row_stride, i);
  const WideGroup<T, kWide> up(static_cast<const T*>(rows.up) + row * rows.row_stride, i);
  float out[kWide];
  for (int j = 0; j < kWide; ++j) out[j] = ActivatedBy(rows.is_gelu, gate[j]).value * up[j];
  PutGroup<T>(static_cast<T*>(rows.output) + row * rows.size, i, out);
}

template <typename T, int kWide>
inline __host__ __device__ void GateGradientGroup(const GatedRows& rows, int64_t row, int64_t i) {
  const int64_t at = row * rows.row_stride;
  const WideGroup<T, kWide> gate(static_cast<const T*>(rows.gate) + at, i), up(static_cast<const T*>(rows.up) + at, i);
  const WideGroup<T, kWide> gradient(static_cast<const T*>(rows.gradient) + row * rows.size, i);
  float of_gate[kWide], of_up[kWide];
  for (int j = 0; j < kWide; ++j) {
    const DeviceActivated activated = ActivatedBy(rows.is_gelu, gate[j]);
    of_gate[j] = gradient[j] * up[j] * activated.slope;
    of_up[j] = gradient[j] * activated.value;
  }
  PutGroup<T>(static_cast<T*>(rows.gate_gradient) + at, i, of_gate);
  PutGroup<T>(static_cast<T*>(rows.up_gradient) + at, i, of_up);
}

// This thread's part of a row: groups of pairs, and what lies behind the pairs.
template <typename T, int kWide>
inline __host__ __device__ void RotateRow(const RotatedRows& rows, int64_t row, int first, int threads) {
  using Group = WideGroup<T, kWide>;
  const T *cos = static_cast<const T*>(rows.cos) + row * rows.half,
          *sin = static_cast<const T*>(rows.sin) + row * rows.half;
  const T* input = static_cast<const T*>(rows.input) + row * rows.row_stride;
  T* output = static_cast<T*>(rows.output) + row * rows.heads * rows.size;
  // Narrow numbers, which GPUs divide fast: a head has no 2^31 elements, nor a row.
  const int groups = static_cast<int>(rows.half / kWide), rest = static_cast<int>(rows.size - 2 * rows.half);
  const int heads = static_cast<int>(rows.heads);
  for (int item = first; item < heads * groups; item += threads) {
    const int head = item / groups, i = item % groups;
    const T* x = input + head * rows.head_stride;
    T* out = output + head * rows.size;
    const Group x1(x, i), x2(x + rows.half, i), c(cos, i), s(sin, i);
    float out1[kWide], out2[kWide];
    for (int j = 0; j < kWide; ++j) {
      const float sine = rows.back ? -s[j] : s[j];
      out1[j] = x1[j] * c[j] - x2[j] * sine;
      out2[j] = x2[j] * c[j] + x1[j] * sine;
    }
    PutGroup<T>(out, i, out1);
    PutGroup<T>(out + rows.half, i, out2);
  }
  for (int item = first; item < heads * rest; item += threads) {
    const int head = item / rest, i = static_cast<int>(2 * rows.half) + item % rest;
    output[head * rows.size + i] = input[head * rows.head_stride + i];
  }
}

}  // namespace distill
