#include "libdistill/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

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

std::string MapCase(absl::string_view text, bool upper) {
  std::string mapped;
  mapped.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const char32_t c = NextCodePoint(text, &i);
    if (upper && c == 0xDF) {
      mapped += "SS";
    } else {
      AppendUtf8(upper ? utf8proc_toupper(c) : utf8proc_tolower(c), &mapped);
    }
  }
  return mapped;
}

}  // namespace

bool IsValidUtf8(absl::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    if (static_cast<uint8_t>(bytes[i]) < 0x80) {
      ++i;
      continue;
    }
    const auto [size, whole] = Sequence(bytes, i);
    if (!whole) return false;
    i += size;
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

char32_t NextCodePoint(absl::string_view text, size_t* position) {
  const auto byte = [&](size_t offset) {
    return *position + offset < text.size() ? static_cast<uint8_t>(text[*position + offset]) : 0u;
  };
  const char32_t first = byte(0);
  if (first < 0x80) {
    *position += 1;
    return first;
  }
  if (first < 0xE0) {
    const char32_t c = (first & 0x1F) << 6 | (byte(1) & 0x3F);
    *position += 2;
    return c;
  }
  if (first < 0xF0) {
    const char32_t c = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    *position += 3;
    return c;
  }
  const char32_t c = (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  *position += 4;
  return c;
}

void AppendUtf8(char32_t c, std::string* text) {
  const auto put = [text](char32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
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

std::string Nfc(absl::string_view text) {
  // Everything below U+0300, whose lead byte is 0xCC, is in form C already.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0xCC; })) {
    return std::string(text);
  }
  utf8proc_uint8_t* normalized = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &normalized, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size < 0) return std::string(text);
  std::string result(reinterpret_cast<const char*>(normalized), static_cast<size_t>(size));
  std::free(normalized);
  return result;
}

bool IsWhitespace(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsWordCharacter(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      break;
  }
  // Join_Control, and the circled and squared letters of Other_Alphabetic.
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool IsCased(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

std::string ToUpper(absl::string_view text) { return MapCase(text, true); }
std::string ToLower(absl::string_view text) { return MapCase(text, false); }

}  // namespace distill
