#include "libdistill/store/mxfp4.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/file_bytes.h"
#include "libdistill/store/narrow_floats.h"

// Shapes: E experts, R rows, G groups of 32 columns. Files have the rows of x -> W x, gpt-oss computes x W: what is
// read row by row is written column by column. It goes through a tile of some rows and one group, which the nearest
// cache holds.
namespace distill {
namespace {

using Shape = std::vector<int64_t>;

constexpr int64_t kGroupColumns = 32, kGroupBytes = 16, kTileRows = 64;
constexpr float kMagnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};  // E2M1; the fourth bit is the sign

std::string Shown(const Shape& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

// Each of the 16 numbers times each of the scales, as bfloat16.
using Products = std::array<std::array<uint16_t, 16>, 256>;

Products MakeProducts() {
  Products products{};
  for (size_t scale = 0; scale < products.size(); ++scale) {
    const float factor = FromBFloat16(BFloat16OfE8M0(static_cast<uint8_t>(scale)));
    for (size_t code = 0; code < 16; ++code) {
      const float magnitude = kMagnitudes[code & 7] * factor;  // two bits and a power of two: nothing is rounded
      products[scale][code] =
          static_cast<uint16_t>((std::bit_cast<uint32_t>(magnitude) >> 16) | ((code & 8) != 0 ? 0x8000 : 0));
    }
  }
  return products;
}

using Tile = std::array<std::array<uint16_t, kTileRows>, kGroupColumns>;

// One group of a row, of which the numbers become column `row` of the tile.
void ReadGroup(const uint8_t* bytes, const std::array<uint16_t, 16>& products, int64_t row, Tile& tile) {
  for (size_t i = 0; i < kGroupBytes; ++i) {
    tile[2 * i][row] = products[bytes[i] & 0xf];
    tile[2 * i + 1][row] = products[bytes[i] >> 4];
  }
}

// [R, G, 16] and [R, G] of one expert -> [32 G, R].
void Dequantise(const uint8_t* blocks, const uint8_t* scales, int64_t rows, int64_t groups, const Products& products,
                char* to) {
  Tile tile;
  for (int64_t first = 0; first < rows; first += kTileRows) {
    const int64_t height = std::min(kTileRows, rows - first);
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t row = 0; row < height; ++row) {
        const int64_t at = (first + row) * groups + group;
        ReadGroup(blocks + at * kGroupBytes, products[scales[at]], row, tile);
      }
      for (int64_t i = 0; i < kGroupColumns; ++i) {
        char* column = to + ((group * kGroupColumns + i) * rows + first) * static_cast<int64_t>(sizeof(uint16_t));
        std::memcpy(column, tile[i].data(), static_cast<size_t>(height) * sizeof(uint16_t));
      }
    }
  }
}

}  // namespace

absl::StatusOr<TensorView> AboutMxfp4(const TensorView& blocks, const TensorView& scales) {
  const std::string found =
      absl::StrCat("its blocks are ", NameOf(blocks.dtype), " ", Shown(blocks.shape), " and its scales ",
                   NameOf(scales.dtype), " ", Shown(scales.shape), "; of MXFP4 they are ", NameOf(DType::kUInt8),
                   " [experts, rows, groups, ", kGroupBytes, "] and [experts, rows, groups]: ");
  const bool are_bytes = blocks.dtype == DType::kUInt8 && scales.dtype == DType::kUInt8;
  const bool fit = blocks.shape.size() == 4 && blocks.shape[3] == kGroupBytes &&
                   scales.shape == Shape(blocks.shape.begin(), blocks.shape.end() - 1);
  if (!are_bytes || !fit) {
    return absl::InvalidArgumentError(
        absl::StrCat(found, "take the files as the model's publisher has them, or save the model anew"));
  }
  TensorView about{.dtype = DType::kBFloat16,
                   .shape = {blocks.shape[0], blocks.shape[2] * kGroupColumns, blocks.shape[1]}};
  if (__builtin_mul_overflow(blocks.size_bytes, 4, &about.size_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(found, "no memory holds as many"));
  }
  return about;
}

absl::StatusOr<TensorView> DequantiseMxfp4(const TensorView& blocks, const TensorView& scales) {
  DISTILL_ASSIGN_OR_RETURN(TensorView result, AboutMxfp4(blocks, scales));
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<char> memory, AllocateBytes(result.size_bytes));
  const Products products = MakeProducts();
  const auto* numbers = static_cast<const uint8_t*>(blocks.data);
  const auto* exponents = static_cast<const uint8_t*>(scales.data);
  const int64_t experts = blocks.shape[0], rows = blocks.shape[1], groups = blocks.shape[2];
  for (int64_t expert = 0; expert < experts; ++expert) {
    const int64_t first = expert * rows * groups;
    Dequantise(numbers + first * kGroupBytes, exponents + first, rows, groups, products,
               memory.get() + first * kGroupColumns * static_cast<int64_t>(sizeof(uint16_t)));
  }
  result.data = memory.get();
  result.owner = memory;
  return result;
}

}  // namespace distill
