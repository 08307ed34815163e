// Floating-point numbers of 8 and 16 bits, as files hold them; inside store/ only.
#pragma once

#include <bit>
#include <cstdint>

namespace distill {

inline float FromBFloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// IEEE 754's binary16.
constexpr float FromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | ((magnitude & 0x3ff) << 13));
  if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + ((127 - 15) << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
  return sign == 0 ? subnormal : -subnormal;
}

// The bfloat16 of the same value, which has one for each of these ("FP8 Formats for Deep Learning", Micikevicius et al.
// 2022; torch's float8_e4m3fn and float8_e5m2): E4M3 has no infinities, and NaN where all bits but the sign are 1.
constexpr uint16_t BFloat16OfE4M3(uint8_t bits) {
  const auto sign = static_cast<uint16_t>((bits & 0x80) << 8);
  int exponent = (bits >> 3) & 0xf, mantissa = bits & 0x7;
  if ((bits & 0x7f) == 0x7f) return sign | 0x7fc0;
  if (exponent == 0) {
    if (mantissa == 0) return sign;
    for (exponent = 1; (mantissa & 0x8) == 0; mantissa <<= 1) --exponent;
    mantissa &= 0x7;
  }
  return static_cast<uint16_t>(sign | ((exponent - 7 + 127) << 7) | (mantissa << 4));
}

// E5M2 is the upper half of a float16.
constexpr uint16_t BFloat16OfE5M2(uint8_t bits) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(FromFloat16(static_cast<uint16_t>(bits << 8))) >> 16);
}

// Powers of two that scale others (OCP's "Microscaling Formats", 2023): 2^(bits - 127), and NaN.
constexpr uint16_t BFloat16OfE8M0(uint8_t bits) {
  if (bits == 0xff) return 0x7fc0;
  return bits == 0 ? 0x40 : static_cast<uint16_t>(bits << 7);
}

}  // namespace distill
