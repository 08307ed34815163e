#include "libdistill/text/byte_level.h"
#include "libdistill/core/utf8.h"

namespace distill {
namespace {

// Latin-1's printable characters stand for themselves; the other 68 bytes follow from U+0100 on, in order:
// 0x00-0x20, 0x7F-0xA0, 0xAD.
bool StandsForItself(char32_t c) {
  return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

}  // namespace

char32_t ByteLevelCharacter(uint8_t byte) {
  if (StandsForItself(byte)) return byte;
  if (byte <= 0x20) return 0x100 + byte;
  return byte == 0xAD ? 0x143 : 0x121 + (byte - 0x7F);
}

bool DecodeByteLevel(absl::string_view token, std::string* bytes) {
  bytes->clear();
  for (size_t i = 0; i < token.size();) {
    const char32_t c = NextCodePoint(token, &i);
    if (StandsForItself(c)) {
      bytes->push_back(static_cast<char>(c));
    } else if (c >= 0x100 && c <= 0x120) {
      bytes->push_back(static_cast<char>(c - 0x100));
    } else if (c >= 0x121 && c <= 0x142) {
      bytes->push_back(static_cast<char>(c - 0x121 + 0x7F));
    } else if (c == 0x143) {
      bytes->push_back(static_cast<char>(0xAD));
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace distill
