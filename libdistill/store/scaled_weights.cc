#include "libdistill/store/scaled_weights.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/file_bytes.h"
#include "libdistill/store/narrow_floats.h"

namespace distill {
namespace {

using Shape = std::vector<int64_t>;

std::string Shown(const Shape& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

// A file may not align them.
template <typename Number>
Number NumberAt(const void* data, int64_t index) {
  Number number;
  std::memcpy(&number, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(Number)), sizeof(Number));
  return number;
}

absl::StatusOr<std::vector<float>> ReadScales(const TensorView& view) {
  std::vector<float> scales(static_cast<size_t>(view.size_bytes / SizeOf(view.dtype)));
  for (size_t i = 0; i < scales.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (view.dtype == DType::kFloat32) {
      scales[i] = NumberAt<float>(view.data, at);
    } else if (view.dtype == DType::kBFloat16) {
      scales[i] = FromBFloat16(NumberAt<uint16_t>(view.data, at));
    } else if (view.dtype == DType::kFloat16) {
      scales[i] = FromFloat16(NumberAt<uint16_t>(view.data, at));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("its scales are ", NameOf(view.dtype)));
    }
  }
  return scales;
}

}  // namespace

absl::StatusOr<ScaledBlock> BlockOfScales(const Shape& weight, const Shape& scales, std::optional<ScaledBlock> block) {
  if (weight.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is of eight bits and of shape ", Shown(weight), "; only matrices of eight bits are read"));
  }
  const int64_t rows = std::max<int64_t>(weight[0], 1), columns = std::max<int64_t>(weight[1], 1);
  if (scales.empty() || std::all_of(scales.begin(), scales.end(), [](int64_t size) { return size == 1; })) {
    return ScaledBlock{rows, columns};
  }
  if (scales == Shape{weight[0]} || scales == Shape{weight[0], 1}) return ScaledBlock{1, columns};
  std::string expected = "a number or one for each row";
  if (block.has_value()) {
    const auto parts = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
    if (scales == Shape{parts(weight[0], block->rows), parts(weight[1], block->columns)}) return *block;
    absl::StrAppend(&expected, ", or one for each block of ", block->rows, " x ", block->columns);
  }
  return absl::InvalidArgumentError(absl::StrCat("its shape is ", Shown(weight), ", and that of its scales ",
                                                 Shown(scales), "; by config.json they must be ", expected));
}

absl::StatusOr<TensorView> MultiplyByScales(const TensorView& weight, const TensorView& scales,
                                            const ScaledBlock& block) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<float> factors, ReadScales(scales));
  const int64_t rows = weight.shape[0], columns = weight.shape[1];
  TensorView result{.dtype = DType::kFloat32, .shape = weight.shape, .size_bytes = rows * columns * 4};
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<char> memory, AllocateBytes(result.size_bytes));
  const auto* from = static_cast<const char*>(weight.data);
  char* to = memory.get();
  const int64_t blocks_of_row = (columns + block.columns - 1) / block.columns;
  for (int64_t row = 0; row < rows; ++row) {
    const float* of_row = factors.data() + row / block.rows * blocks_of_row;
    for (int64_t begin = 0; begin < columns; begin += block.columns) {
      const float factor = of_row[begin / block.columns];
      for (int64_t i = std::min(block.columns, columns - begin); i > 0; --i, from += 2, to += 4) {
        const float value = FromBFloat16(NumberAt<uint16_t>(from, 0)) * factor;
        std::memcpy(to, &value, sizeof(value));
      }
    }
  }
  result.data = memory.get();
  result.owner = memory;
  return result;
}

}  // namespace distill
