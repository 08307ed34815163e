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

void Buffer::Fill(int64_t begin, int64_t count, int64_t period, absl::FunctionRef<int(int64_t)> value) {
  const int64_t first = std::min(count, period);
  for (int64_t i = 0; i < first; ++i) Store(at(begin + i), value(i), dtype_);
  for (int64_t done = first; done < count;) {
    const int64_t more = std::min(done, count - done);  // `done` is a multiple of the period
    std::memcpy(at(begin + done), at(begin), static_cast<size_t>(more * SizeOf(dtype_)));
    done += more;
  }
}

int64_t Buffer::FindWrong(int64_t begin, int64_t count, int64_t period, absl::FunctionRef<int(int64_t)> value) {
  constexpr int64_t kTileElements = 1024;
  const int64_t whole = std::min(count, (kTileElements + period - 1) / period * period);
  Arena arena;
  Buffer tile(arena, whole, dtype_, 0);
  tile.Fill(0, whole, period, value);
  const auto differ = [&](int64_t i, int64_t length) {
    return std::memcmp(at(begin + i), tile.at(i % whole), static_cast<size_t>(length * SizeOf(dtype_))) != 0;
  };
  for (int64_t i = 0; i < count; i += whole) {
    if (!differ(i, std::min(whole, count - i))) continue;
    while (!differ(i, 1)) ++i;
    return begin + i;
  }
  return -1;
}

absl::Status Verify(Buffer& result, int64_t begin, int64_t count, int64_t period, const std::string& text,
                    absl::FunctionRef<int(int64_t)> expected) {
  if (const int64_t wrong = result.FindWrong(begin, count, period, expected); wrong >= 0) {
    return absl::InternalError(absl::StrCat(text, ": element ", wrong, " is not ", expected((wrong - begin) % period)));
  }
  if (!result.GuardsStand()) return absl::InternalError(absl::StrCat(text, ": wrote outside its buffer"));
  return absl::OkStatus();
}

}  // namespace distill::testing
