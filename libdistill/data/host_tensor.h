// A tensor in host memory that knows nothing of torch: element type, shape, bytes. What data sets read, and what
// collators make batches of.
//
//   const HostTensor ids(std::vector<int32_t>{5, 6, 7});                          // shape [3]
//   const HostTensor features(std::vector<float>(20 * 80), {20, 80});             // T frames of F features
//   for (const int32_t id : ids.values<int32_t>()) ...
//
// The bytes are shared by all copies and never change, so a copy is cheap and any thread may read one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "libdistill/core/dtype.h"

namespace distill {

// The element type of a C++ type; there are no others. Truth values are uint8_t, 0 or 1.
template <typename T>
constexpr DType DTypeOf() = delete;
template <>
constexpr DType DTypeOf<uint8_t>() {
  return DType::kUInt8;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType DTypeOf<int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType DTypeOf<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kFloat64;
}

class HostTensor {
 public:
  HostTensor() = default;  // of shape [0], float32

  // Takes the values along: uint8_t, int32_t, int64_t, float or double. Their number must be the product of the shape
  // ([] is a scalar, of one value), or the process ends: it is the program's own mistake.
  template <typename T>
  HostTensor(std::vector<T> values, std::vector<int64_t> shape) : HostTensor(DTypeOf<T>(), std::move(shape)) {
    CheckCount(static_cast<int64_t>(values.size()));
    data_ = Own(std::move(values));
  }
  template <typename T>
  explicit HostTensor(std::vector<T> values) : HostTensor(DTypeOf<T>(), {static_cast<int64_t>(values.size())}) {
    data_ = Own(std::move(values));
  }
  // Bytes that something else keeps, as a mapped file: `data` points at them and keeps their owner alive
  // (std::shared_ptr's aliasing constructor). They must be aligned to their elements, as many as the shape says.
  HostTensor(DType dtype, std::vector<int64_t> shape, std::shared_ptr<const void> data)
      : HostTensor(dtype, std::move(shape)) {
    data_ = std::move(data);
  }

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t size() const { return size_; }  // elements
  int64_t size_bytes() const { return size_ * SizeOf(dtype_); }
  const void* data() const { return data_.get(); }

  // In row-major order. T must be the tensor's own type, or the process ends; Sample::Get returns an error instead.
  template <typename T>
  absl::Span<const T> values() const {
    CheckType(DTypeOf<T>());
    return {static_cast<const T*>(data_.get()), static_cast<size_t>(size_)};
  }

  // "int32 [3]", for messages.
  std::string Describe() const;

 private:
  HostTensor(DType dtype, std::vector<int64_t> shape);
  template <typename T>
  static std::shared_ptr<const void> Own(std::vector<T> values) {
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    return std::shared_ptr<const void>(owner, owner->data());
  }
  void CheckCount(int64_t values) const;
  void CheckType(DType dtype) const;

  DType dtype_ = DType::kFloat32;
  std::vector<int64_t> shape_ = {0};
  int64_t size_ = 0;
  std::shared_ptr<const void> data_;
};

// Whether type, shape and bytes are the same.
bool operator==(const HostTensor& a, const HostTensor& b);

}  // namespace distill
