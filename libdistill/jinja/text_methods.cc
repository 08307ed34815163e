// Methods of strings, as Python has them.
#include <utf8proc.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

// Python's str.isspace, which also counts the separators U+001C to U+001F.
bool IsSpace(char32_t c) { return IsWhitespace(c) || (c >= 0x1C && c <= 0x1F); }

template <bool left, bool right>
Result StripMethod(const Value& self, const Given& given) {
  return Value(Strip(*self.text(), given[0], left, right));
}

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
      parts.push_back(Strip(text.substr(begin), nullptr, false, true));
      break;
    }
    skip(false);
    parts.push_back(text.substr(begin, i - begin));
  }
  return parts;
}

std::vector<std::string> SplitAt(const std::string& text, const std::string& separator, int64_t limit, bool from_end) {
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
  }
  parts.push_back(text.substr(begin, end - begin));
  if (from_end) std::reverse(parts.begin(), parts.end());
  return parts;
}

Result TextList(const std::vector<std::string>& parts) { return MakeList({parts.begin(), parts.end()}); }

template <bool from_end>
Result SplitMethod(const Value& self, const Given& given) {
  if (given[1] != nullptr && !given[1]->IsInteger()) return Error("split() needs a number as maxsplit");
  const int64_t limit = given[1] == nullptr ? -1 : given[1]->integer();
  if (given[0] == nullptr || given[0]->IsNone()) {
    if (from_end && limit >= 0) return Error("rsplit() with maxsplit needs a separator here");
    return TextList(SplitAtSpace(*self.text(), limit));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string separator, TextArgument("split", given[0]));
  if (separator.empty()) return Error("split() with an empty separator");
  return TextList(SplitAt(*self.text(), separator, limit, from_end));
}

Result SplitLines(const Value& self, const Given&) {
  std::vector<std::string> lines = absl::StrSplit(*self.text(), '\n');
  if (lines.back().empty()) lines.pop_back();
  for (std::string& line : lines) {
    if (absl::EndsWith(line, "\r")) line.pop_back();
  }
  return TextList(lines);
}

template <bool at_end>
Result AffixMethod(const Value& self, const Given& given) {
  const char* name = at_end ? "endswith" : "startswith";
  std::vector<Value> affixes = {*given[0]};
  if (const List* list = given[0]->list(); list != nullptr && list->is_tuple) affixes = list->items;
  for (const Value& affix : affixes) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, TextArgument(name, &affix));
    if (at_end ? absl::EndsWith(*self.text(), text) : absl::StartsWith(*self.text(), text)) return Value(true);
  }
  return Value(false);
}

template <bool at_end>
Result RemoveAffix(const Value& self, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::string affix, TextArgument("removeprefix", given[0]));
  const std::string& text = *self.text();
  if (!(at_end ? absl::EndsWith(text, affix) : absl::StartsWith(text, affix))) return self;
  return Value(text.substr(at_end ? 0 : affix.size(), text.size() - affix.size()));
}

// Upper, lower or title case letters.
bool IsCased(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
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

// str.title: a letter is upper case where no letter stands before it.
std::string Title(absl::string_view text) {
  std::string out;
  bool after_letter = false;
  for (const absl::string_view c : CodePoints(text)) {
    size_t position = 0;
    absl::StrAppend(&out, after_letter ? ToLower(c) : ToUpper(c));
    after_letter = IsCased(NextCodePoint(c, &position));
  }
  return out;
}

Result ReplaceMethod(const Value& self, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::string from, TextArgument("replace", given[0]));
  DISTILL_ASSIGN_OR_RETURN(const std::string to, TextArgument("replace", given[1]));
  if (given[2] != nullptr && !given[2]->IsInteger()) return Error("replace() needs a number as count");
  return Replace(*self.text(), from, to, given[2] == nullptr ? -1 : given[2]->integer());
}

template <bool from_end>
Result FindMethod(const Value& self, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::string part, TextArgument("find", given[0]));
  const size_t found = from_end ? self.text()->rfind(part) : self.text()->find(part);
  if (found == std::string::npos) return Value(-1);
  return Value::MakeCount(CountCodePoints(absl::string_view(*self.text()).substr(0, found)));
}

Result CountMethod(const Value& self, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::string part, TextArgument("count", given[0]));
  if (part.empty()) return Value::MakeCount(CountCodePoints(*self.text()) + 1);
  return Value::MakeCount(SplitAt(*self.text(), part, -1, false).size() - 1);
}

Result JoinMethod(const Value& self, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(*given[0]));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, TextArgument("join", &items[i]));
    absl::StrAppend(&out, i == 0 ? "" : *self.text(), text);
    if (out.size() > kMaxTextBytes) break;
  }
  return BoundedText(std::move(out));
}

template <bool (*holds)(char32_t)>
Result EveryCharacter(const Value& self, const Given&) {
  const std::string& text = *self.text();
  bool all = !text.empty();
  for (size_t i = 0; i < text.size() && all;) all = holds(NextCodePoint(text, &i));
  return Value(all);
}

bool IsAsciiDigit(char32_t c) { return c >= '0' && c <= '9'; }

}  // namespace

const Builtins& TextMethods() {
  static const Builtins kMethods = {
      {"strip", {"strip", {"characters"}, 0, StripMethod<true, true>}},
      {"lstrip", {"strip", {"characters"}, 0, StripMethod<true, false>}},
      {"rstrip", {"strip", {"characters"}, 0, StripMethod<false, true>}},
      {"split", {"split", {"sep", "maxsplit"}, 0, SplitMethod<false>}},
      {"rsplit", {"split", {"sep", "maxsplit"}, 0, SplitMethod<true>}},
      {"splitlines", {"splitlines", {}, 0, SplitLines}},
      {"startswith", {"startswith", {"affix"}, 1, AffixMethod<false>}},
      {"endswith", {"endswith", {"affix"}, 1, AffixMethod<true>}},
      {"removeprefix", {"removeprefix", {"affix"}, 1, RemoveAffix<false>}},
      {"removesuffix", {"removeprefix", {"affix"}, 1, RemoveAffix<true>}},
      {"upper", {"method", {}, 0, Convert<ToUpper>}},
      {"lower", {"method", {}, 0, Convert<ToLower>}},
      {"title", {"method", {}, 0, Convert<Title>}},
      {"capitalize", {"method", {}, 0, Convert<Capitalize>}},
      {"replace", {"replace", {"old", "new", "count"}, 2, ReplaceMethod}},
      {"find", {"find", {"sub"}, 1, FindMethod<false>}},
      {"rfind", {"find", {"sub"}, 1, FindMethod<true>}},
      {"count", {"count", {"sub"}, 1, CountMethod}},
      {"join", {"join", {"items"}, 1, JoinMethod}},
      {"isdigit", {"method", {}, 0, EveryCharacter<IsAsciiDigit>}},
      {"isspace", {"method", {}, 0, EveryCharacter<IsSpace>}},
  };
  return kMethods;
}

std::string ToUpper(absl::string_view text) { return MapCase(text, true); }
std::string ToLower(absl::string_view text) { return MapCase(text, false); }

std::string Strip(absl::string_view text, const Value* characters, bool left, bool right) {
  const std::string* set = characters == nullptr ? nullptr : characters->text();
  const auto goes = [set](absl::string_view c) {
    size_t position = 0;
    return set == nullptr ? IsSpace(NextCodePoint(c, &position)) : absl::StrContains(*set, c);
  };
  while (left && !text.empty()) {
    size_t size = 0;
    NextCodePoint(text, &size);
    if (!goes(text.substr(0, size))) break;
    text.remove_prefix(size);
  }
  while (right && !text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!goes(text.substr(last))) break;
    text.remove_suffix(text.size() - last);
  }
  return std::string(text);
}

Result Replace(absl::string_view text, absl::string_view from, absl::string_view to, int64_t count) {
  std::string out;
  size_t i = 0;
  for (; count != 0 && i <= text.size() && out.size() <= kMaxTextBytes; --count) {
    const size_t found = from.empty() ? i : text.find(from, i);
    if (found == absl::string_view::npos) break;
    absl::StrAppend(&out, text.substr(i, found - i), to);
    i = found + from.size();
    if (!from.empty()) continue;
    const size_t begin = i;
    if (i == text.size()) break;
    NextCodePoint(text, &i);
    absl::StrAppend(&out, text.substr(begin, i - begin));
  }
  if (i < text.size()) absl::StrAppend(&out, text.substr(i));
  return BoundedText(std::move(out));
}

std::string Capitalize(absl::string_view text) {
  if (text.empty()) return "";
  size_t size = 0;
  NextCodePoint(text, &size);
  return ToUpper(text.substr(0, size)) + ToLower(text.substr(size));
}

Result BoundedText(std::string text) {
  if (text.size() > kMaxTextBytes) return Error("a text grows beyond 64 MiB");
  return Value(std::move(text));
}

}  // namespace distill::jinja
