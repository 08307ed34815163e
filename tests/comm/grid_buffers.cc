#include "tests/comm/grid_buffers.h"

#include "absl/strings/str_cat.h"

namespace distill::testing {

void Store(char* out, int value, DType dtype) {
  const auto put = [out](auto x) { std::memcpy(out, &x, sizeof(x)); };
  switch (dtype) {
    case DType::kFloat32:
      return put(static_cast<float>(value));
    case DType::kFloat64:
      return put(static_cast<double>(value));
    case DType::kInt32:
      return put(static_cast<int32_t>(value));
    case DType::kInt64:
      return put(static_cast<int64_t>(value));
    case DType::kUInt8:
      return put(static_cast<uint8_t>(value));
    case DType::kBFloat16: {
      const float wide = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &wide, sizeof(bits));
      return put(static_cast<uint16_t>(bits >> 16));
    }
    case DType::kFloat16: {
      int exponent = 0;
      while (value >> (exponent + 1)) ++exponent;
      const int bits = value == 0 ? 0 : ((exponent + 15) << 10) | ((value << (10 - exponent)) & 0x3ff);
      return put(static_cast<uint16_t>(bits));
    }
  }
}

int Combine(ReduceOp op, int ranks, absl::FunctionRef<int(int)> value) {
  int result = value(0);
  for (int r = 1; r < ranks; ++r) {
    const int next = value(r);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += next;
        break;
      case ReduceOp::kMin:
        result = std::min(result, next);
        break;
      case ReduceOp::kMax:
        result = std::max(result, next);
        break;
      case ReduceOp::kProduct:
        result *= next;
        break;
    }
  }
  return op == ReduceOp::kAverage ? result / ranks : result;
}

absl::Status Verify(Buffer& result, int64_t count, const std::string& text, absl::FunctionRef<int(int64_t)> expected) {
  for (int64_t i = 0; i < count; ++i) {
    if (!result.Is(i, expected(i))) {
      return absl::InternalError(absl::StrCat(text, ": element ", i, " is not ", expected(i)));
    }
  }
  if (!result.GuardsStand()) return absl::InternalError(absl::StrCat(text, ": wrote outside its buffer"));
  return absl::OkStatus();
}

}  // namespace distill::testing
