// Element types that cross room borders: collectives, files, tensors.
#pragma once

#include <cstdint>
#include <string>

namespace distill {

// Names are listed in this order (core/dtype.cc, store/safetensors_write.cc).
enum class DType : uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt64, kUInt8 };

constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kUInt8:
      return 1;
  }
  return 0;
}

// "float32", "bfloat16", ...: the spelling of config.json.
const char* NameOf(DType dtype);

}  // namespace distill
