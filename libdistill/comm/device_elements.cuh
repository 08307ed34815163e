// One element of a reduction, as the device computes it; compiled for the host as well, where a test compares it with
// the CPU's loops.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "libdistill/comm/device_reduce.h"

namespace distill {

struct DeviceSources {
  const void* at[kMostDeviceSources];
  int count;
};

// What is accumulated where `Stored` is stored, and the way there and back.
template <typename Stored>
struct DeviceElement {
  using Sum = Stored;
  static __host__ __device__ Sum Widen(Stored x) { return x; }
  static __host__ __device__ Stored Narrow(Sum x) { return x; }
};
template <>
struct DeviceElement<__half> {
  using Sum = float;
  static __host__ __device__ float Widen(__half x) { return __half2float(x); }
  static __host__ __device__ __half Narrow(float x) { return __float2half_rn(x); }
};
template <>
struct DeviceElement<__nv_bfloat16> {
  using Sum = float;
  static __host__ __device__ float Widen(__nv_bfloat16 x) { return __bfloat162float(x); }
  static __host__ __device__ __nv_bfloat16 Narrow(float x) { return __float2bfloat16_rn(x); }
};

// Integers wrap: signed overflow is undefined, unsigned overflow is not.
template <typename T>
using DeviceWrapping =
    typename std::conditional<std::is_integral<T>::value, std::make_unsigned<T>, std::remove_cv<T>>::type::type;

template <typename T>
__host__ __device__ T Apply(ReduceOp op, T a, T b) {
  using W = DeviceWrapping<T>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
    case ReduceOp::kMin:
      return b < a ? b : a;
    case ReduceOp::kMax:
      return a < b ? b : a;
    case ReduceOp::kProduct:
      return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
  return a;
}

// The divisor is never narrowed to the type: 256 ranks would be 0 in a uint8.
template <typename T>
__host__ __device__ T Divided(T sum, int divisor) {
  using Wide = typename std::conditional<(sizeof(T) < sizeof(int)), int, T>::type;
  return static_cast<T>(static_cast<Wide>(sum) / static_cast<Wide>(divisor));
}

template <typename Stored>
__host__ __device__ void ReduceElement(Stored* out, const DeviceSources& sources, int64_t i, ReduceOp op, int divisor) {
  using Element = DeviceElement<Stored>;
  using Sum = typename Element::Sum;
  Sum sum = Element::Widen(static_cast<const Stored*>(sources.at[0])[i]);
  for (int s = 1; s < sources.count; ++s) {
    sum = Apply<Sum>(op, sum, Element::Widen(static_cast<const Stored*>(sources.at[s])[i]));
  }
  if (divisor > 1) sum = Divided(sum, divisor);
  out[i] = Element::Narrow(sum);
}

// Calls with a value of the type that `dtype` stands for.
template <typename Call>
int ForType(DType dtype, const Call& call) {
  switch (dtype) {
    case DType::kFloat32:
      return call(float());
    case DType::kFloat64:
      return call(double());
    case DType::kFloat16:
      return call(__half());
    case DType::kBFloat16:
      return call(__nv_bfloat16());
    case DType::kInt32:
      return call(int32_t());
    case DType::kInt64:
      return call(int64_t());
    case DType::kUInt8:
      return call(uint8_t());
  }
  return 1;
}

}  // namespace distill
