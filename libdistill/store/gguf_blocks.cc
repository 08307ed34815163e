#include "libdistill/store/gguf_blocks.h"

#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "libdistill/store/narrow_floats.h"

// Blocks of 32 or 256 elements, each of a few bits, with one or two float16 that scale them; in the larger blocks,
// parts of 16 or 32 elements have factors of six or eight bits as well. Each function computes as ggml's
// dequantize_row_TYPE does, in float32 and in the same order, so that the values are the same to the last bit: this
// file is compiled without fused products (CMakeLists.txt).
namespace distill {
namespace {

float HalfAt(const uint8_t* bytes) { return FromFloat16(static_cast<uint16_t>(bytes[0] | (bytes[1] << 8))); }

void Put(float value, char*& to) {
  std::memcpy(to, &value, sizeof(value));
  to += sizeof(value);
}

// kBytes of a block become elements by each(block, to), which moves `to`.
template <int64_t kBytes, void (*kEach)(const uint8_t* block, char*& to)>
void Blocks(const char* from, int64_t blocks, char* to) {
  for (; blocks > 0; --blocks, from += kBytes) kEach(reinterpret_cast<const uint8_t*>(from), to);
}

// d, then 32 bytes.
void DecodeQ8(const uint8_t* block, char*& to) {
  const float d = HalfAt(block);
  for (int i = 0; i < 32; ++i) Put(static_cast<float>(static_cast<int8_t>(block[2 + i])) * d, to);
}

// d, with kHasMinimum m; with kBits 5 the elements' fifth bits; the lower halves of 16 bytes and then their upper ones.
template <int kBits, bool kHasMinimum>
void DecodeSmall(const uint8_t* block, char*& to) {
  const float d = HalfAt(block), m = kHasMinimum ? HalfAt(block + 2) : 0;
  const uint8_t* high = block + (kHasMinimum ? 4 : 2);
  const uint8_t* low = high + (kBits == 5 ? 4 : 0);
  for (int i = 0; i < 32; ++i) {
    int q = i < 16 ? low[i] & 0xf : low[i - 16] >> 4;
    if (kBits == 5) q |= (high[i / 8] >> (i % 8) & 1) << 4;
    if (kHasMinimum) {
      Put(static_cast<float>(q) * d + m, to);
    } else {
      Put(static_cast<float>(q - (1 << (kBits - 1))) * d, to);
    }
  }
}

// Of the i-th of eight parts: six bits of a factor and of a minimum each, in 12 bytes.
struct PartScale {
  float factor, minimum;
};
PartScale PartScaleAt(const uint8_t* scales, int i) {
  if (i < 4) return {static_cast<float>(scales[i] & 63), static_cast<float>(scales[i + 4] & 63)};
  return {static_cast<float>((scales[i + 4] & 0xf) | (scales[i - 4] >> 6 << 4)),
          static_cast<float>((scales[i + 4] >> 4) | (scales[i] >> 6 << 4))};
}

// d, dmin, the parts' scales; with kBits 5 a bit of each of 32 columns, for the eight parts; 128 bytes, of which 32
// hold a part in their lower halves and the next one in their upper ones.
template <int kBits>
void DecodeWithMinimum(const uint8_t* block, char*& to) {
  const float d = HalfAt(block), smallest = HalfAt(block + 2);
  const uint8_t* high = block + 16;
  const uint8_t* low = high + (kBits == 5 ? 32 : 0);
  for (int part = 0; part < 8; ++part) {
    const PartScale scale = PartScaleAt(block + 4, part);
    const float factor = d * scale.factor, minimum = smallest * scale.minimum;
    for (int i = 0; i < 32; ++i) {
      int q = low[part / 2 * 32 + i] >> (part % 2 * 4) & 0xf;
      if (kBits == 5) q |= (high[i] >> part & 1) << 4;
      Put(factor * static_cast<float>(q) - minimum, to);
    }
  }
}

// 128 bytes of four lower bits, 64 of two upper ones, 16 factors, d. Each half of the block has four rows of 32.
void DecodeQ6K(const uint8_t* block, char*& to) {
  const float d = HalfAt(block + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t *low = block + half * 64, *high = block + 128 + half * 32, *factors = block + 192 + half * 8;
    for (int row = 0; row < 4; ++row) {
      for (int i = 0; i < 32; ++i) {
        const int lower = low[row % 2 * 32 + i] >> (row / 2 * 4) & 0xf;
        const int q = (lower | (high[i] >> (2 * row) & 3) << 4) - 32;
        Put(d * static_cast<float>(static_cast<int8_t>(factors[row * 2 + i / 16])) * static_cast<float>(q), to);
      }
    }
  }
}

struct GgufType {
  uint32_t number;
  StoredType type;
};
constexpr DType kRead = DType::kFloat32;
constexpr GgufType kTypes[] = {{0, {"F32", DType::kFloat32, 4}},
                               {1, {"F16", DType::kFloat16, 2}},
                               {30, {"BF16", DType::kBFloat16, 2}},
                               {8, {"Q8_0", kRead, 34, 32, Blocks<34, DecodeQ8>}},
                               {2, {"Q4_0", kRead, 18, 32, Blocks<18, DecodeSmall<4, false>>}},
                               {3, {"Q4_1", kRead, 20, 32, Blocks<20, DecodeSmall<4, true>>}},
                               {6, {"Q5_0", kRead, 22, 32, Blocks<22, DecodeSmall<5, false>>}},
                               {7, {"Q5_1", kRead, 24, 32, Blocks<24, DecodeSmall<5, true>>}},
                               {12, {"Q4_K", kRead, 144, 256, Blocks<144, DecodeWithMinimum<4>>}},
                               {13, {"Q5_K", kRead, 176, 256, Blocks<176, DecodeWithMinimum<5>>}},
                               {14, {"Q6_K", kRead, 210, 256, Blocks<210, DecodeQ6K>}}};

// llama.cpp's converter adds 1 to these.
void DecodeOneBelow(const uint8_t* number, char*& to) {
  float value;
  std::memcpy(&value, number, sizeof(value));
  Put(value - 1, to);
}
constexpr StoredType kOneBelow = {"F32", kRead, sizeof(float), 1, Blocks<sizeof(float), DecodeOneBelow>};

constexpr const char* kNames[] = {"F32",     "F16",    "Q4_0",    "Q4_1",  "Q4_2",   "Q4_3",  "Q5_0",  "Q5_1",
                                  "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
                                  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS"};

}  // namespace

const StoredType* GgufTypeOf(uint32_t number) {
  for (const GgufType& type : kTypes) {
    if (type.number == number) return &type.type;
  }
  return nullptr;
}

const StoredType* GgufTypeOneBelow(const StoredType& type) {
  return type.dtype == kRead && type.decode == nullptr ? &kOneBelow : nullptr;
}

std::string GgufTypeName(uint32_t number) {
  if (number < std::size(kNames)) return kNames[number];
  const StoredType* type = GgufTypeOf(number);
  if (type != nullptr) return type->name;
  return number == 39 ? "MXFP4" : absl::StrCat("type ", number);
}

std::string GgufTypesRead() {
  std::string names;
  for (const GgufType& type : kTypes) absl::StrAppend(&names, names.empty() ? "" : ", ", type.type.name);
  return names;
}

}  // namespace distill
