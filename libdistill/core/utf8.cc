#include "libdistill/core/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace distill {
namespace {

// What the first byte promises: the sequence's length, and the range of the second byte (Unicode, table 3-7).
struct Lead {
  int length = 0;
  uint8_t low = 0x80, high = 0xBF;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// Bytes of the well-formed start at `position`, and whether it is a whole sequence.
std::pair<size_t, bool> Sequence(absl::string_view bytes, size_t position) {
  const Lead lead = LeadOf(static_cast<uint8_t>(bytes[position]));
  if (lead.length == 0) return {1, false};
  for (int i = 1; i < lead.length; ++i) {
    if (position + i >= bytes.size()) return {i, false};
    const uint8_t byte = static_cast<uint8_t>(bytes[position + i]);
    if (byte < (i == 1 ? lead.low : 0x80) || byte > (i == 1 ? lead.high : 0xBF)) return {i, false};
  }
  return {lead.length, true};
}

}  // namespace

bool IsValidUtf8(absl::string_view bytes) {
  for (size_t i = EndOfAscii(bytes, 0); i < bytes.size();) {
    const auto [size, whole] = Sequence(bytes, i);
    if (!whole) return false;
    i += size;
    if (i < bytes.size() && static_cast<uint8_t>(bytes[i]) < 0x80) i = EndOfAscii(bytes, i);
  }
  return true;
}

std::string LossyUtf8(absl::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const auto [size, whole] = Sequence(bytes, i);
    if (whole) {
      text.append(bytes.data() + i, size);
    } else {
      text += "\xEF\xBF\xBD";
    }
    i += size;
  }
  return text;
}

size_t EndOfAscii(absl::string_view text, size_t begin) {
  uint64_t bytes = 0;
  for (; begin + sizeof(bytes) <= text.size(); begin += sizeof(bytes)) {
    std::memcpy(&bytes, text.data() + begin, sizeof(bytes));
    if ((bytes & 0x8080808080808080u) != 0) break;
  }
  while (begin < text.size() && static_cast<uint8_t>(text[begin]) < 0x80) ++begin;
  return begin;
}

void AppendUtf8(char32_t c, std::string* text) {
  if (c < 0x80) return text->push_back(static_cast<char>(c));
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  text->push_back(static_cast<char>(0xFF << (7 - more) | c >> 6 * more));  // as many ones as there are bytes
  for (int i = more - 1; i >= 0; --i) text->push_back(static_cast<char>(0x80 | (c >> 6 * i & 0x3F)));
}

std::vector<absl::string_view> CodePoints(absl::string_view text) {
  std::vector<absl::string_view> code_points;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    NextCodePoint(text, &i);
    code_points.push_back(text.substr(begin, i - begin));
  }
  return code_points;
}

size_t CountCodePoints(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

size_t LastCodePoint(absl::string_view text) {
  size_t i = text.size() - 1;
  while (i > 0 && (static_cast<uint8_t>(text[i]) & 0xC0) == 0x80) --i;
  return i;
}

bool IsWhitespace(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t LeadingSpace(absl::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    size_t position = end;
    if (!IsWhitespace(NextCodePoint(text, &position))) break;
    end = position;
  }
  return end;
}

size_t WithoutTrailingSpace(absl::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t last = LastCodePoint(text.substr(0, end));
    size_t position = last;
    if (!IsWhitespace(NextCodePoint(text, &position))) break;
    end = last;
  }
  return end;
}

}  // namespace distill
