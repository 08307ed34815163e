// Element types that cross room borders: collectives, files, tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace distill {

// Sizes and names are listed in this order (below, store/safetensors_write.cc).
enum class DType : uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt64, kUInt8 };

constexpr int64_t SizeOf(DType dtype) {
  constexpr int64_t kBytes[] = {4, 8, 2, 2, 4, 8, 1};
  const auto index = static_cast<size_t>(dtype);
  return index < std::size(kBytes) ? kBytes[index] : 0;
}

// "float32", "bfloat16", ...: the spelling of config.json.
constexpr const char* NameOf(DType dtype) {
  constexpr const char* kNames[] = {"float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"};
  const auto index = static_cast<size_t>(dtype);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

}  // namespace distill
