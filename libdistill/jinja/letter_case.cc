#include "libdistill/jinja/letter_case.h"

#include <utf8proc.h>

#include "libdistill/core/utf8.h"

namespace distill::jinja {
namespace {

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

bool IsCased(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

std::string ToUpper(absl::string_view text) { return MapCase(text, true); }
std::string ToLower(absl::string_view text) { return MapCase(text, false); }

}  // namespace distill::jinja
