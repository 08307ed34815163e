// `value | filter`.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/jinja_builtins.h"
#include "libdistill/text/unicode.h"

namespace distill::jinja {
namespace {

using Result = absl::StatusOr<Value>;
using Filter = Result (*)(const Value& input, const Arguments& arguments);

// "a.b.0" of an item, as map and selectattr look it up; `otherwise` stands for every part that is undefined.
Result Lookup(Value item, const Value& path, const Value* otherwise = nullptr) {
  for (const absl::string_view part : absl::StrSplit(ToText(path), '.')) {
    int64_t index = 0;
    DISTILL_ASSIGN_OR_RETURN(item, GetItem(item, absl::SimpleAtoi(part, &index) ? Value(index) : Value(part)));
    if (otherwise != nullptr && item.IsUndefined()) item = *otherwise;
  }
  return item;
}

// What sort, unique, min and max compare: an attribute, without case unless they are told to mind it.
Result SortKey(const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = item;
  if (attribute != nullptr && !attribute->IsNone()) {
    DISTILL_ASSIGN_OR_RETURN(key, Lookup(item, *attribute));
  }
  return key.IsString() && !case_sensitive ? Value(ToLower(*key.text())) : key;
}

using Keyed = std::vector<std::pair<Value, Value>>;  // key, item

absl::StatusOr<Keyed> WithKeys(const Value& input, const Value* attribute, const Value* case_sensitive) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  Keyed keyed;
  for (Value& item : items) {
    DISTILL_ASSIGN_OR_RETURN(Value key, SortKey(item, attribute, case_sensitive != nullptr && IsTrue(*case_sensitive)));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  return keyed;
}

Result Length(const Value& input, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("length", {}).status());
  if (const std::string* text = input.text()) return Value::MakeCount(CountCodePoints(*text));
  if (const List* list = input.list()) return Value::MakeCount(list->items.size());
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  return Value::MakeCount(items.size());
}

Result Trim(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("trim", {"chars"}));
  return Value(Strip(ToText(input), given[0], true, true));
}

// A word starts at the text's start and after "-", whitespace and opening brackets.
std::string TitleText(absl::string_view text) {
  std::string out;
  bool starts = true;
  for (const absl::string_view c : CodePoints(text)) {
    absl::StrAppend(&out, starts ? ToUpper(c) : ToLower(c));
    size_t position = 0;
    starts = IsWhitespace(NextCodePoint(c, &position)) || c == "-" || c == "(" || c == "{" || c == "[" || c == "<";
  }
  return out;
}

template <std::string (*convert)(absl::string_view)>
Result Convert(const Value& input, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("filter", {}).status());
  return Value(convert(ToText(input)));
}

Result ToString(const Value& input, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("string", {}).status());
  return Value(ToText(input));
}

Result Default(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("default", {"default_value", "boolean"}));
  const bool replaces = input.IsUndefined() || (given[1] != nullptr && IsTrue(*given[1]) && !IsTrue(input));
  if (!replaces) return input;
  return given[0] == nullptr ? Value("") : *given[0];
}

Result Join(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("join", {"d", "attribute"}));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  std::string out;
  for (size_t i = 0; i < items.size() && out.size() <= kMaxTextBytes; ++i) {
    if (i > 0 && given[0] != nullptr) out += ToText(*given[0]);
    Value item = items[i];
    if (given[1] != nullptr) {
      DISTILL_ASSIGN_OR_RETURN(item, Lookup(item, *given[1]));
    }
    out += ToText(item);
  }
  return BoundedText(std::move(out));
}

template <bool last>
Result End(const Value& input, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("first", {}).status());
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  if (items.empty()) return Value::MakeUndefined("the sequence is empty");
  return last ? items.back() : items.front();
}

Result ToList(const Value& input, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("list", {}).status());
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  return MakeList(std::move(items));
}

Result Items(const Value& input, const Arguments& arguments) {
  if (input.IsUndefined()) return MakeList({});
  if (!HasMethod(input, "items")) return Error(absl::StrCat("items: ", TypeName(input), " is no dict"));
  return CallMethod(input, "items", arguments);
}

Result Reverse(const Value& input, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("reverse", {}).status());
  if (input.IsString()) return Slice(input, Value(), Value(), Value(-1));
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  std::reverse(items.begin(), items.end());
  return MakeList(std::move(items));
}

Result ToInteger(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("int", {"default"}));
  const Value otherwise = given[0] == nullptr ? Value(0) : *given[0];
  if (input.IsUndefined()) return Error(input.reason());
  if (input.IsInteger()) return Value(input.integer());
  double number = 0;
  if (const std::string* text = input.text()) {
    int64_t integer = 0;
    if (absl::SimpleAtoi(*text, &integer)) return Value(integer);
    if (!absl::SimpleAtod(*text, &number)) return otherwise;
  } else if (input.IsNumber()) {
    number = input.number();
  } else {
    return otherwise;
  }
  return std::abs(number) < 9e18 ? Value(static_cast<int64_t>(number)) : otherwise;
}

Result ToFloat(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("float", {"default"}));
  if (input.IsUndefined()) return Error(input.reason());
  double number = 0;
  if (input.IsNumber()) return Value(input.number());
  if (input.IsString() && absl::SimpleAtod(*input.text(), &number)) return Value(number);
  return given[0] == nullptr ? Value(0.0) : *given[0];
}

Result Abs(const Value& input, const Arguments& arguments) {
  DISTILL_RETURN_IF_ERROR(arguments.Bind("abs", {}).status());
  if (!input.IsNumber()) return Error(absl::StrCat("abs: ", TypeName(input), " is no number"));
  if (!input.IsInteger()) return Value(std::abs(input.number()));
  return Value(std::abs(std::max<int64_t>(input.integer(), -INT64_MAX)));
}

Result ReplaceFilter(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("replace", {"old", "new", "count"}, 2));
  const bool all = given[2] == nullptr || given[2]->IsNone();
  return Replace(ToText(input), ToText(*given[0]), ToText(*given[1]), all ? -1 : given[2]->integer());
}

// Every line but the first is moved to the right; blank ones only with `blank`.
Result Indent(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("indent", {"width", "first", "blank"}));
  std::string indent(4, ' ');
  if (given[0] != nullptr && given[0]->IsString()) indent = *given[0]->text();
  if (given[0] != nullptr && given[0]->IsInteger())
    indent.assign(std::clamp<int64_t>(given[0]->integer(), 0, 1024), ' ');
  const bool first = given[1] != nullptr && IsTrue(*given[1]);
  const bool blank = given[2] != nullptr && IsTrue(*given[2]);
  const std::vector<std::string> lines = absl::StrSplit(ToText(input), '\n');
  std::string out;
  for (size_t i = 0; i < lines.size() && out.size() <= kMaxTextBytes; ++i) {
    if (i > 0) out += '\n';
    if (i == 0 ? first : blank || !lines[i].empty()) out += indent;
    out += lines[i];
  }
  return BoundedText(std::move(out));
}

Result Sort(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("sort", {"reverse", "case_sensitive", "attribute"}));
  DISTILL_ASSIGN_OR_RETURN(Keyed keyed, WithKeys(input, given[2], given[1]));
  const bool reverse = given[0] != nullptr && IsTrue(*given[0]);
  absl::Status failure;
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const absl::StatusOr<int> order = reverse ? Compare(b.first, a.first) : Compare(a.first, b.first);
    if (!order.ok()) failure = order.status();
    return order.ok() && *order < 0;
  });
  DISTILL_RETURN_IF_ERROR(failure);
  std::vector<Value> items;
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return MakeList(std::move(items));
}

Result Unique(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("unique", {"case_sensitive", "attribute"}));
  DISTILL_ASSIGN_OR_RETURN(Keyed keyed, WithKeys(input, given[1], given[0]));
  std::vector<Value> seen, items;
  for (auto& [key, item] : keyed) {
    if (std::any_of(seen.begin(), seen.end(), [&key = key](const Value& other) { return Equal(key, other); })) continue;
    seen.push_back(std::move(key));
    items.push_back(std::move(item));
  }
  return MakeList(std::move(items));
}

template <bool largest>
Result Extreme(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("min", {"case_sensitive", "attribute"}));
  DISTILL_ASSIGN_OR_RETURN(const Keyed keyed, WithKeys(input, given[1], given[0]));
  if (keyed.empty()) return Value::MakeUndefined("the sequence is empty");
  const auto* best = &keyed.front();
  for (const auto& entry : keyed) {
    DISTILL_ASSIGN_OR_RETURN(const int order, Compare(entry.first, best->first));
    if (largest ? order > 0 : order < 0) best = &entry;
  }
  return best->second;
}

// map(attribute="name", default=...) or map("filter", arguments...).
Result Map(const Value& input, const Arguments& arguments) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  std::vector<Value> mapped;
  if (!arguments.positional.empty()) {
    const std::string name = ToText(arguments.positional[0]);
    if (!HasFilter(name)) return Error(absl::StrCat("map: the filter '", name, "' is not supported"));
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    for (const Value& item : items) {
      DISTILL_ASSIGN_OR_RETURN(Value value, ApplyFilter(name, item, rest));
      mapped.push_back(std::move(value));
    }
    return MakeList(std::move(mapped));
  }
  DISTILL_ASSIGN_OR_RETURN(const auto given, arguments.Bind("map", {"attribute", "default"}, 1));
  for (const Value& item : items) {
    DISTILL_ASSIGN_OR_RETURN(Value value, Lookup(item, *given[0], given[1]));
    mapped.push_back(std::move(value));
  }
  return MakeList(std::move(mapped));
}

// The items, or those with an attribute, of which a test (truth without one) holds or does not hold.
template <bool keep, bool attribute>
Result Select(const Value& input, const Arguments& arguments) {
  const size_t used = attribute ? 1 : 0;
  if (!arguments.named.empty() || arguments.positional.size() < used) return Error("select: wrong arguments");
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  std::vector<Value> test(arguments.positional.begin() + used, arguments.positional.end()), selected;
  std::string name;
  if (!test.empty()) {
    name = ToText(test.front());
    test.erase(test.begin());
  }
  for (const Value& item : items) {
    Value subject = item;
    if (attribute) {
      DISTILL_ASSIGN_OR_RETURN(subject, Lookup(item, arguments.positional[0]));
    }
    bool holds = IsTrue(subject);
    if (!name.empty()) {
      DISTILL_ASSIGN_OR_RETURN(holds, ApplyTest(name, subject, test));
    }
    if (holds == keep) selected.push_back(item);
  }
  return MakeList(std::move(selected));
}

Result Safe(const Value& input, const Arguments&) { return input; }

const std::map<absl::string_view, Filter>& Filters() {
  static const std::map<absl::string_view, Filter> kFilters = {
      {"abs", Abs},
      {"capitalize", Convert<Capitalize>},
      {"count", Length},
      {"d", Default},
      {"default", Default},
      {"first", End<false>},
      {"float", ToFloat},
      {"indent", Indent},
      {"int", ToInteger},
      {"items", Items},
      {"join", Join},
      {"last", End<true>},
      {"length", Length},
      {"list", ToList},
      {"lower", Convert<ToLower>},
      {"map", Map},
      {"max", Extreme<true>},
      {"min", Extreme<false>},
      {"reject", Select<false, false>},
      {"rejectattr", Select<false, true>},
      {"replace", ReplaceFilter},
      {"reverse", Reverse},
      {"safe", Safe},
      {"select", Select<true, false>},
      {"selectattr", Select<true, true>},
      {"sort", Sort},
      {"string", ToString},
      {"title", Convert<TitleText>},
      {"tojson", ToJson},
      {"trim", Trim},
      {"unique", Unique},
      {"upper", Convert<ToUpper>},
  };
  return kFilters;
}

}  // namespace

bool HasFilter(absl::string_view name) { return Filters().count(name) > 0; }

std::string FilterNames() {
  return absl::StrJoin(Filters(), ", ", [](std::string* out, const auto& f) { absl::StrAppend(out, f.first); });
}

Result ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments) {
  return Filters().at(name)(input, arguments);
}

}  // namespace distill::jinja
