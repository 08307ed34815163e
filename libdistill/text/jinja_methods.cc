// Methods of strings, dicts and lists, and the global functions.
#include <algorithm>
#include <ctime>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/jinja_builtins.h"
#include "libdistill/text/unicode.h"

namespace distill::jinja {
namespace {

using Result = absl::StatusOr<Value>;
using Method = Result (*)(const Value& self, const Arguments& arguments);
using Methods = std::map<absl::string_view, Method>;

constexpr int64_t kMaxRange = 100000;  // as jinja2's sandbox

// Python's str.isspace, which also counts the separators U+001C to U+001F.
bool IsSpace(char32_t c) { return IsWhitespace(c) || (c >= 0x1C && c <= 0x1F); }

absl::StatusOr<std::string> TextArgument(absl::string_view function, const Value* value) {
  if (value->IsString()) return *value->text();
  return Error(absl::StrCat(function, "() needs a string, not ", TypeName(*value)));
}

template <bool left, bool right>
Result StripMethod(const Value& self, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("strip", {"characters"}));
  return Value(Strip(*self.text(), given[0], left, right));
}

template <std::string (*convert)(absl::string_view)>
Result ConvertMethod(const Value& self, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("method", {}).status());
  return Value(convert(*self.text()));
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

Result TextList(const std::vector<std::string>& parts) {
  std::vector<Value> items;
  for (const std::string& part : parts) items.emplace_back(part);
  return MakeList(std::move(items));
}

template <bool from_end>
Result SplitMethod(const Value& self, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("split", {"sep", "maxsplit"}));
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

Result SplitLines(const Value& self, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("splitlines", {}).status());
  std::vector<std::string> lines = absl::StrSplit(*self.text(), '\n');
  if (lines.back().empty()) lines.pop_back();
  for (std::string& line : lines) {
    if (absl::EndsWith(line, "\r")) line.pop_back();
  }
  return TextList(lines);
}

template <bool at_end>
Result AffixMethod(const Value& self, const Arguments& arguments) {
  const char* name = at_end ? "endswith" : "startswith";
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind(name, {"affix"}, 1));
  std::vector<Value> affixes = {*given[0]};
  if (const List* list = given[0]->list(); list != nullptr && list->is_tuple) affixes = list->items;
  for (const Value& affix : affixes) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, TextArgument(name, &affix));
    if (at_end ? absl::EndsWith(*self.text(), text) : absl::StartsWith(*self.text(), text)) return Value(true);
  }
  return Value(false);
}

template <bool at_end>
Result RemoveAffix(const Value& self, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("removeprefix", {"affix"}, 1));
  DISTILL_ASSIGN_OR_RETURN(const std::string affix, TextArgument("removeprefix", given[0]));
  const std::string& text = *self.text();
  if (!(at_end ? absl::EndsWith(text, affix) : absl::StartsWith(text, affix))) return self;
  return Value(text.substr(at_end ? 0 : affix.size(), text.size() - affix.size()));
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

Result ReplaceMethod(const Value& self, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("replace", {"old", "new", "count"}, 2));
  DISTILL_ASSIGN_OR_RETURN(const std::string from, TextArgument("replace", given[0]));
  DISTILL_ASSIGN_OR_RETURN(const std::string to, TextArgument("replace", given[1]));
  return Replace(*self.text(), from, to, given[2] == nullptr ? -1 : given[2]->integer());
}

template <bool from_end>
Result FindMethod(const Value& self, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("find", {"sub"}, 1));
  DISTILL_ASSIGN_OR_RETURN(const std::string part, TextArgument("find", given[0]));
  const size_t found = from_end ? self.text()->rfind(part) : self.text()->find(part);
  if (found == std::string::npos) return Value(-1);
  return Value::MakeCount(CountCodePoints(absl::string_view(*self.text()).substr(0, found)));
}

Result CountMethod(const Value& self, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("count", {"sub"}, 1));
  DISTILL_ASSIGN_OR_RETURN(const std::string part, TextArgument("count", given[0]));
  if (part.empty()) return Value::MakeCount(CountCodePoints(*self.text()) + 1);
  return Value::MakeCount(SplitAt(*self.text(), part, -1, false).size() - 1);
}

Result JoinMethod(const Value& self, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("join", {"items"}, 1));
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
Result EveryCharacter(const Value& self, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("method", {}).status());
  const std::string& text = *self.text();
  bool all = !text.empty();
  for (size_t i = 0; i < text.size() && all;) all = holds(NextCodePoint(text, &i));
  return Value(all);
}

bool IsAsciiDigit(char32_t c) { return c >= '0' && c <= '9'; }

template <bool keys, bool values>
Result EntriesMethod(const Value& self, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("items", {}).status());
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries) {
    if (keys && values) {
      DISTILL_ASSIGN_OR_RETURN(Value pair, MakeList({key, value}, /*is_tuple=*/true));
      items.push_back(std::move(pair));
    } else {
      items.push_back(keys ? key : value);
    }
  }
  return MakeList(std::move(items));
}

Result GetMethod(const Value& self, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("get", {"key", "default"}, 1));
  if (const Value* value = self.dict()->Find(*given[0])) return *value;
  return given[1] == nullptr ? Value::MakeNone() : *given[1];
}

Result CopyMethod(const Value& self, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("copy", {}).status());
  return MakeDict(self.dict()->entries);
}

Result ListCount(const Value& self, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("count", {"value"}, 1));
  const std::vector<Value>& items = self.list()->items;
  return Value::MakeCount(
      std::count_if(items.begin(), items.end(), [&](const Value& v) { return Equal(v, *given[0]); }));
}

Result ListIndex(const Value& self, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("index", {"value"}, 1));
  const std::vector<Value>& items = self.list()->items;
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& v) { return Equal(v, *given[0]); });
  if (found == items.end()) return Error(absl::StrCat(ToRepr(*given[0]), " is not in the list"));
  return Value::MakeCount(found - items.begin());
}

const Methods& MethodsOf(const Value& receiver) {
  static const Methods kText = {
      {"strip", StripMethod<true, true>},
      {"lstrip", StripMethod<true, false>},
      {"rstrip", StripMethod<false, true>},
      {"split", SplitMethod<false>},
      {"rsplit", SplitMethod<true>},
      {"splitlines", SplitLines},
      {"startswith", AffixMethod<false>},
      {"endswith", AffixMethod<true>},
      {"removeprefix", RemoveAffix<false>},
      {"removesuffix", RemoveAffix<true>},
      {"upper", ConvertMethod<ToUpper>},
      {"lower", ConvertMethod<ToLower>},
      {"title", ConvertMethod<Title>},
      {"capitalize", ConvertMethod<Capitalize>},
      {"replace", ReplaceMethod},
      {"find", FindMethod<false>},
      {"rfind", FindMethod<true>},
      {"count", CountMethod},
      {"join", JoinMethod},
      {"isdigit", EveryCharacter<IsAsciiDigit>},
      {"isspace", EveryCharacter<IsSpace>},
  };
  static const Methods kDict = {{"items", EntriesMethod<true, true>},
                                {"keys", EntriesMethod<true, false>},
                                {"values", EntriesMethod<false, true>},
                                {"get", GetMethod},
                                {"copy", CopyMethod}};
  static const Methods kList = {{"count", ListCount}, {"index", ListIndex}};
  static const Methods kNone;
  if (receiver.IsString()) return kText;
  if (receiver.list() != nullptr) return kList;
  return receiver.dict() != nullptr && receiver.dict()->kind == Dict::Kind::kDict ? kDict : kNone;
}

Result RaiseException(const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("raise_exception", {"message"}, 1));
  return Error(absl::StrCat("the template refuses these messages: ", ToText(*given[0])));
}

Result Range(const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("range", {"start", "stop", "step"}, 1));
  for (const Value* value : given) {
    if (value != nullptr && !value->IsInteger()) return Error("range() needs integers");
  }
  const int64_t begin = given[1] == nullptr ? 0 : given[0]->integer();
  const int64_t end = given[1] == nullptr ? given[0]->integer() : given[1]->integer();
  const int64_t step = given[2] == nullptr ? 1 : given[2]->integer();
  if (step == 0) return Error("range() with a step of zero");
  std::vector<Value> items;
  // In 128 bits no border overflows.
  for (__int128 i = begin; step > 0 ? i < end : i > end; i += step) {
    if (items.size() >= kMaxRange) return Error(absl::StrCat("range() is longer than ", kMaxRange));
    items.emplace_back(static_cast<int64_t>(i));
  }
  return MakeList(std::move(items));
}

template <Dict::Kind kind>
Result DictFunction(const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) return Error("dict() and namespace() take one dict, and names");
  if (!arguments.positional.empty()) {
    const Dict* source = arguments.positional[0].dict();
    if (source == nullptr) return Error("dict() and namespace() take one dict, and names");
    entries = source->entries;
  }
  for (const auto& [name, value] : arguments.named) entries.emplace_back(name, value);
  for (const auto& [key, value] : entries) {
    if (kind == Dict::Kind::kNamespace && key.IsString() && absl::StartsWith(*key.text(), "_")) {
      return Error(absl::StrCat("a namespace cannot hold '", *key.text(), "', which starts with an underscore"));
    }
  }
  DISTILL_ASSIGN_OR_RETURN(Value value, MakeDict(std::move(entries)));
  value.dict()->kind = kind;
  return value;
}

Result StrftimeNow(const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("strftime_now", {"format"}, 1));
  DISTILL_ASSIGN_OR_RETURN(const std::string format, TextArgument("strftime_now", given[0]));
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char buffer[512];
  return Value(std::string(buffer, std::strftime(buffer, sizeof(buffer), format.c_str(), &local)));
}

const std::map<absl::string_view, Result (*)(const Arguments&)>& Globals() {
  static const std::map<absl::string_view, Result (*)(const Arguments&)> kGlobals = {
      {"raise_exception", RaiseException},
      {"range", Range},
      {"namespace", DictFunction<Dict::Kind::kNamespace>},
      {"dict", DictFunction<Dict::Kind::kDict>},
      {"strftime_now", StrftimeNow}};
  return kGlobals;
}

}  // namespace

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

bool HasMethod(const Value& receiver, absl::string_view name) { return MethodsOf(receiver).count(name) > 0; }

Result CallMethod(const Value& receiver, const std::string& name, const Arguments& arguments) {
  return MethodsOf(receiver).at(name)(receiver, arguments);
}

bool HasGlobal(absl::string_view name) { return Globals().count(name) > 0; }

Result CallGlobal(const std::string& name, const Arguments& arguments) { return Globals().at(name)(arguments); }

}  // namespace distill::jinja
