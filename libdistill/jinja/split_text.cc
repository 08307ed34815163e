// How Python cuts strings into parts and lines, and which characters it takes for white space, digits and words.
#include <utf8proc.h>

#include <algorithm>

#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

// Runs of whitespace separate; none at the borders. The last part of `limit` splits keeps its inner whitespace.
std::vector<std::string> SplitAtSpace(const std::string& text, int64_t limit) {
  std::vector<std::string> parts;
  size_t i = 0;
  const auto skip = [&](bool space) {
    for (size_t next = i; i < text.size(); i = next) {
      if (IsSpace(NextCodePoint(text, &next)) != space) break;
    }
  };
  for (skip(true); i < text.size(); skip(true)) {
    const size_t begin = i;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(text.substr(begin));
      break;
    }
    skip(false);
    parts.push_back(text.substr(begin, i - begin));
  }
  return parts;
}

// The same from the text's end.
std::vector<std::string> SplitAtSpaceFromEnd(const std::string& text, int64_t limit) {
  std::vector<std::string> parts;
  size_t end = text.size();
  const auto skip = [&](bool space) {
    while (end > 0) {
      const size_t begin = LastCodePoint(absl::string_view(text).substr(0, end));
      size_t position = begin;
      if (IsSpace(NextCodePoint(text, &position)) != space) break;
      end = begin;
    }
  };
  for (skip(true); end > 0; skip(true)) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(text.substr(0, end));
      break;
    }
    const size_t stop = end;
    skip(false);
    parts.push_back(text.substr(end, stop - end));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

bool IsSpace(char32_t c) { return IsWhitespace(c) || (c >= 0x1C && c <= 0x1F); }

bool IsWordCharacter(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return c == '_' || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

// Decimal digits, and those of other forms: superscripts, circled and the like.
bool IsDigit(char32_t c) {
  static constexpr struct {
    char32_t first, last;
  } kOther[] = {{0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
                {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
                {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
                {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
  if (utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND) return true;
  return std::any_of(std::begin(kOther), std::end(kOther), [c](auto r) { return r.first <= c && c <= r.last; });
}

std::vector<std::string> SplitText(const std::string& text, const std::string& separator, int64_t limit,
                                   bool from_end) {
  if (separator.empty()) return from_end ? SplitAtSpaceFromEnd(text, limit) : SplitAtSpace(text, limit);
  std::vector<std::string> parts;
  size_t begin = 0, end = text.size();
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    if (!from_end) {
      const size_t found = text.find(separator, begin);
      if (found == std::string::npos) break;
      parts.push_back(text.substr(begin, found - begin));
      begin = found + separator.size();
    } else {
      if (end < separator.size()) break;
      const size_t found = text.rfind(separator, end - separator.size());
      if (found == std::string::npos) break;
      parts.push_back(text.substr(found + separator.size(), end - found - separator.size()));
      end = found;
    }
    if (parts.size() > kMaxItems) break;  // more than a list takes
  }
  parts.push_back(text.substr(begin, end - begin));
  if (from_end) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> SplitLines(absl::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size() && lines.size() <= kMaxItems;) {
    const size_t end = i;
    const char32_t c = NextCodePoint(text, &i);
    if (!(c >= 0x0A && c <= 0x0D) && !(c >= 0x1C && c <= 0x1E) && c != 0x85 && c != 0x2028 && c != 0x2029) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.emplace_back(text.substr(begin, (keep_ends ? i : end) - begin));
    begin = i;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

absl::Status ChargeSearch(size_t text_bytes, size_t part_bytes, Budget& budget) {
  constexpr int64_t kComparisonsPerStep = 2048;
  const auto text = static_cast<int64_t>(text_bytes), part = static_cast<int64_t>(std::min(part_bytes, text_bytes));
  DISTILL_RETURN_IF_ERROR(budget.Read(text));
  return budget.Steps(text * part / kComparisonsPerStep);
}

}  // namespace distill::jinja
