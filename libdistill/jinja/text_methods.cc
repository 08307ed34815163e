// Methods of strings, as Python has them.
#include <utf8proc.h>

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

template <bool left, bool right>
Result StripMethod(const Value& self, const Given& given) {
  if (given[0] != nullptr && !given[0]->IsNone()) {
    DISTILL_ASSIGN_OR_RETURN(const std::string characters, TextArgument("strip", given[0]));
    DISTILL_RETURN_IF_ERROR(ChargeSearch(self.text()->size(), characters.size(), given.budget));
  }
  return Value(Strip(*self.text(), given[0], left, right));
}

Result TextList(const std::vector<std::string>& parts) { return MakeList({parts.begin(), parts.end()}); }

template <bool from_end>
Result SplitMethod(const Value& self, const Given& given) {
  if (given[1] != nullptr && !given[1]->IsInteger()) return Error("split() needs a number as maxsplit");
  const int64_t limit = given[1] == nullptr ? -1 : given[1]->integer();
  std::string separator;
  if (given[0] != nullptr && !given[0]->IsNone()) {
    DISTILL_ASSIGN_OR_RETURN(separator, TextArgument("split", given[0]));
    if (separator.empty()) return Error("split() with an empty separator");
    DISTILL_RETURN_IF_ERROR(ChargeSearch(self.text()->size(), separator.size(), given.budget));
  }
  return TextList(SplitText(*self.text(), separator, limit, from_end));
}

template <bool from_end>
Result PartitionMethod(const Value& self, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::string separator, TextArgument("partition", given[0]));
  if (separator.empty()) return Error("partition() with an empty separator");
  DISTILL_RETURN_IF_ERROR(ChargeSearch(self.text()->size(), separator.size(), given.budget));
  const std::string& text = *self.text();
  const size_t found = from_end ? text.rfind(separator) : text.find(separator);
  if (found == std::string::npos) return from_end ? MakeTuple({"", "", self}) : MakeTuple({self, "", ""});
  return MakeTuple({text.substr(0, found), separator, text.substr(found + separator.size())});
}

Result SplitLinesMethod(const Value& self, const Given& given) {
  return TextList(SplitLines(*self.text(), given[0] != nullptr && IsTrue(*given[0])));
}

// The part of a text that `start` and `stop` leave to find, count, startswith and their like; nothing where it begins
// behind the text.
struct Part {
  std::string text;
  int64_t start = 0;  // in characters
};
absl::StatusOr<std::optional<Part>> PartOf(const Value& self, const Value* start, const Value* stop) {
  if (start == nullptr && stop == nullptr) return Part{*self.text(), 0};
  const auto count = static_cast<int64_t>(CountCodePoints(*self.text()));
  DISTILL_ASSIGN_OR_RETURN(
      const Value part, Slice(self, start == nullptr ? Value() : *start, stop == nullptr ? Value() : *stop, Value()));
  const int64_t given = start == nullptr || !start->IsInteger() ? 0 : start->integer();
  const int64_t from = given < 0 ? std::max<int64_t>(given + count, 0) : given;
  const int64_t to = stop == nullptr || !stop->IsInteger() ? count
                     : stop->integer() < 0                 ? std::max<int64_t>(stop->integer() + count, 0)
                                                           : stop->integer();
  if (from > count || from > to) return std::optional<Part>();
  return Part{*part.text(), from};
}

template <bool at_end>
Result AffixMethod(const Value& self, const Given& given) {
  const char* name = at_end ? "endswith" : "startswith";
  DISTILL_ASSIGN_OR_RETURN(const std::optional<Part> part, PartOf(self, given[1], given[2]));
  std::vector<Value> affixes = {*given[0]};
  if (const List* list = given[0]->list(); list != nullptr && list->IsTuple()) affixes = list->items;
  for (const Value& affix : affixes) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, TextArgument(name, &affix));
    if (part.has_value() && (at_end ? absl::EndsWith(part->text, text) : absl::StartsWith(part->text, text)))
      return Value(true);
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

Result ReplaceMethod(const Value& self, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::string from, TextArgument("replace", given[0]));
  DISTILL_ASSIGN_OR_RETURN(const std::string to, TextArgument("replace", given[1]));
  if (given[2] != nullptr && !given[2]->IsInteger()) return Error("replace() needs a number as count");
  DISTILL_RETURN_IF_ERROR(ChargeSearch(self.text()->size(), from.size(), given.budget));
  return Replace(*self.text(), from, to, given[2] == nullptr ? -1 : given[2]->integer());
}

template <bool from_end, bool must_find>
Result FindMethod(const Value& self, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::string sought, TextArgument("find", given[0]));
  DISTILL_RETURN_IF_ERROR(ChargeSearch(self.text()->size(), sought.size(), given.budget));
  DISTILL_ASSIGN_OR_RETURN(const std::optional<Part> part, PartOf(self, given[1], given[2]));
  const size_t found = !part.has_value() ? std::string::npos
                       : from_end        ? part->text.rfind(sought)
                                         : part->text.find(sought);
  if (found == std::string::npos) return must_find ? Result(Error("index(): the text does not occur")) : Value(-1);
  return Value(part->start + static_cast<int64_t>(CountCodePoints(absl::string_view(part->text).substr(0, found))));
}

Result CountMethod(const Value& self, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::string sought, TextArgument("count", given[0]));
  DISTILL_RETURN_IF_ERROR(ChargeSearch(self.text()->size(), sought.size(), given.budget));
  DISTILL_ASSIGN_OR_RETURN(const std::optional<Part> part, PartOf(self, given[1], given[2]));
  if (!part.has_value()) return Value(0);
  if (sought.empty()) return Value::MakeCount(CountCodePoints(part->text) + 1);
  int64_t count = 0;
  for (size_t i = part->text.find(sought); i != std::string::npos; i = part->text.find(sought, i + sought.size()))
    ++count;
  return Value(count);
}

enum class Side { kLeft, kRight, kCenter };  // where the text stands

// ljust, rjust and center: filled up to a width.
template <Side side>
Result JustifyMethod(const Value& self, const Given& given) {
  if (!given[0]->IsInteger()) return Error("ljust(), rjust() and center() need a number as width");
  std::string fill = " ";
  if (given[1] != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(fill, TextArgument("center", given[1]));
    if (CountCodePoints(fill) != 1) return Error("ljust(), rjust() and center() fill with one character");
  }
  const int64_t width = given[0]->integer(), missing = width - static_cast<int64_t>(CountCodePoints(*self.text()));
  if (missing <= 0) return self;
  if (missing > static_cast<int64_t>(kMaxTextBytes)) return Error("a text grows beyond 64 MiB");
  const int64_t left = side == Side::kLeft ? 0 : side == Side::kRight ? missing : missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += *self.text();
  for (int64_t i = left; i < missing; ++i) out += fill;
  return BoundedText(std::move(out));
}

Result ZeroFill(const Value& self, const Given& given) {
  if (!given[0]->IsInteger()) return Error("zfill() needs a number as width");
  const std::string& text = *self.text();
  const int64_t missing = given[0]->integer() - static_cast<int64_t>(CountCodePoints(text));
  if (missing <= 0) return self;
  if (missing > static_cast<int64_t>(kMaxTextBytes)) return Error("a text grows beyond 64 MiB");
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  return BoundedText(absl::StrCat(text.substr(0, sign), std::string(missing, '0'), text.substr(sign)));
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

utf8proc_category_t CategoryOf(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool IsAlphabetic(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool IsDecimal(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_ND; }
bool IsAscii(char32_t c) { return c < 0x80; }

// str.isalnum, without the underscore of a word.
bool IsAlphanumeric(char32_t c) { return c != '_' && IsWordCharacter(c); }

template <LetterCase letter_case>
Result CaseTest(const Value& self, const Given&) {
  return Value(IsInCase(*self.text(), letter_case));
}

Result IsAsciiMethod(const Value& self, const Given& given) {
  return self.text()->empty() ? Result(true) : EveryCharacter<IsAscii>(self, given);
}

}  // namespace

const Builtins& TextMethods() {
  static const Builtins kMethods = {
      {"capitalize", {"method", {}, 0, Convert<Capitalize>}},
      {"center", {"center", {"width", "fillchar"}, 1, JustifyMethod<Side::kCenter>}},
      {"count", {"count", {"sub", "start", "end"}, 1, CountMethod}},
      {"endswith", {"endswith", {"affix", "start", "end"}, 1, AffixMethod<true>}},
      {"find", {"find", {"sub", "start", "end"}, 1, FindMethod<false, false>}},
      {"index", {"index", {"sub", "start", "end"}, 1, FindMethod<false, true>}},
      {"isalnum", {"method", {}, 0, EveryCharacter<IsAlphanumeric>}},
      {"isalpha", {"method", {}, 0, EveryCharacter<IsAlphabetic>}},
      {"isascii", {"method", {}, 0, IsAsciiMethod}},
      {"isdecimal", {"method", {}, 0, EveryCharacter<IsDecimal>}},
      {"isdigit", {"method", {}, 0, EveryCharacter<IsDigit>}},
      {"islower", {"method", {}, 0, CaseTest<LetterCase::kLower>}},
      {"isspace", {"method", {}, 0, EveryCharacter<IsSpace>}},
      {"isupper", {"method", {}, 0, CaseTest<LetterCase::kUpper>}},
      {"join", {"join", {"items"}, 1, JoinMethod}},
      {"ljust", {"ljust", {"width", "fillchar"}, 1, JustifyMethod<Side::kLeft>}},
      {"lower", {"method", {}, 0, Convert<ToLower>}},
      {"lstrip", {"strip", {"characters"}, 0, StripMethod<true, false>}},
      {"partition", {"partition", {"sep"}, 1, PartitionMethod<false>}},
      {"removeprefix", {"removeprefix", {"affix"}, 1, RemoveAffix<false>}},
      {"removesuffix", {"removeprefix", {"affix"}, 1, RemoveAffix<true>}},
      {"replace", {"replace", {"old", "new", "count"}, 2, ReplaceMethod}},
      {"rfind", {"find", {"sub", "start", "end"}, 1, FindMethod<true, false>}},
      {"rindex", {"index", {"sub", "start", "end"}, 1, FindMethod<true, true>}},
      {"rjust", {"rjust", {"width", "fillchar"}, 1, JustifyMethod<Side::kRight>}},
      {"rpartition", {"partition", {"sep"}, 1, PartitionMethod<true>}},
      {"rsplit", {"split", {"sep", "maxsplit"}, 0, SplitMethod<true>}},
      {"rstrip", {"strip", {"characters"}, 0, StripMethod<false, true>}},
      {"split", {"split", {"sep", "maxsplit"}, 0, SplitMethod<false>}},
      {"splitlines", {"splitlines", {"keepends"}, 0, SplitLinesMethod}},
      {"startswith", {"startswith", {"affix", "start", "end"}, 1, AffixMethod<false>}},
      {"strip", {"strip", {"characters"}, 0, StripMethod<true, true>}},
      {"swapcase", {"method", {}, 0, Convert<SwapCase>}},
      {"title", {"method", {}, 0, Convert<ToTitle>}},
      {"upper", {"method", {}, 0, Convert<ToUpper>}},
      {"zfill", {"zfill", {"width"}, 1, ZeroFill}},
  };
  return kMethods;
}

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

Result BoundedText(std::string text) {
  if (text.size() > kMaxTextBytes) return Error("a text grows beyond 64 MiB");
  return Value(std::move(text));
}

}  // namespace distill::jinja
