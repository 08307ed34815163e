// Filters over lists, and over whatever else can be iterated.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

// "a.b.0" of an item, as map and selectattr look it up; `otherwise` stands for every part that is undefined.
Result Lookup(Value item, const Value& path, const Value* otherwise = nullptr) {
  for (const absl::string_view part : absl::StrSplit(ToText(path), '.')) {
    int64_t index = 0;
    DISTILL_ASSIGN_OR_RETURN(item, GetItem(item, absl::SimpleAtoi(part, &index) ? Value(index) : Value(part)));
    if (otherwise != nullptr && item.IsUndefined()) item = *otherwise;
  }
  return item;
}

using Keyed = std::vector<std::pair<Value, Value>>;  // key, item

// What sort, unique, min and max compare: an attribute, without case unless they are told to mind it.
absl::StatusOr<Keyed> WithKeys(const Value& input, const Value* attribute, const Value* case_sensitive) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  const bool minds_case = case_sensitive != nullptr && IsTrue(*case_sensitive);
  Keyed keyed;
  for (Value& item : items) {
    Value key = item;
    if (attribute != nullptr && !attribute->IsNone()) {
      DISTILL_ASSIGN_OR_RETURN(key, Lookup(item, *attribute));
    }
    if (key.IsString() && !minds_case) key = Value(ToLower(*key.text()));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  return keyed;
}

Result Join(const Value& input, const Given& given) {
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
Result End(const Value& input, const Given&) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  if (items.empty()) return Value::MakeUndefined("the sequence is empty");
  return last ? items.back() : items.front();
}

Result ToList(const Value& input, const Given&) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  return MakeList(std::move(items));
}

Result Items(const Value& input, const Given& given) {
  if (input.IsUndefined()) return MakeList({});
  const auto items = MethodsOf(input).find("items");
  if (items == MethodsOf(input).end()) return Error(absl::StrCat("items: ", TypeName(input), " is no dict"));
  return items->second.Call(input, given.arguments);
}

Result Reverse(const Value& input, const Given&) {
  if (input.IsString()) return Slice(input, Value(), Value(), Value(-1));
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  std::reverse(items.begin(), items.end());
  return MakeList(std::move(items));
}

absl::StatusOr<std::vector<Value>> SortedItems(Keyed keyed, bool reverse) {
  absl::Status failure;
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const absl::StatusOr<int> order = reverse ? Compare(b.first, a.first) : Compare(a.first, b.first);
    if (!order.ok()) failure = order.status();
    return order.ok() && *order < 0;
  });
  DISTILL_RETURN_IF_ERROR(failure);
  std::vector<Value> items;
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return items;
}

Result Sort(const Value& input, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(Keyed keyed, WithKeys(input, given[2], given[1]));
  const bool reverse = given[0] != nullptr && IsTrue(*given[0]);
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, SortedItems(std::move(keyed), reverse));
  return MakeList(std::move(items));
}

// dictsort(case_sensitive, by, reverse): the entries of a dict as pairs, by key or by value.
Result DictSort(const Value& input, const Given& given) {
  const Dict* dict = input.dict();
  if (dict == nullptr) return Error(absl::StrCat("dictsort: ", TypeName(input), " is no dict"));
  const std::string by = given[1] == nullptr ? "key" : ToText(*given[1]);
  if (by != "key" && by != "value") return Error("dictsort: 'by' is neither 'key' nor 'value'");
  const bool minds_case = given[0] != nullptr && IsTrue(*given[0]);
  Keyed keyed;
  for (const auto& [name, value] : dict->entries) {
    DISTILL_ASSIGN_OR_RETURN(Value pair, MakeList({name, value}, /*is_tuple=*/true));
    Value key = by == "key" ? name : value;
    if (key.IsString() && !minds_case) key = Value(ToLower(*key.text()));
    keyed.emplace_back(std::move(key), std::move(pair));
  }
  const bool reverse = given[2] != nullptr && IsTrue(*given[2]);
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, SortedItems(std::move(keyed), reverse));
  return MakeList(std::move(items));
}

Result Unique(const Value& input, const Given& given) {
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
Result Extreme(const Value& input, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const Keyed keyed, WithKeys(input, given[1], given[0]));
  if (keyed.empty()) return Value::MakeUndefined("the sequence is empty");
  const auto* best = &keyed.front();
  for (const auto& entry : keyed) {
    DISTILL_ASSIGN_OR_RETURN(const int order, Compare(entry.first, best->first));
    if (largest ? order > 0 : order < 0) best = &entry;
  }
  return best->second;
}

Result MapAttribute(const Value& input, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  for (Value& item : items) {
    DISTILL_ASSIGN_OR_RETURN(item, Lookup(item, *given[0], given[1]));
  }
  return MakeList(std::move(items));
}

// map(attribute="name", default=...) or map("filter", arguments...).
Result Map(const Value& input, const Given& given) {
  static const Builtin kAttribute = {"map", {"attribute", "default"}, 1, MapAttribute};
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  if (given.arguments.positional.empty()) return kAttribute.Call(input, given.arguments);
  Arguments rest = given.arguments;
  const std::string name = ToText(rest.positional[0]);
  rest.positional.erase(rest.positional.begin());
  const auto filter = Filters().find(name);
  if (filter == Filters().end()) return Error(absl::StrCat("map: the filter '", name, "' is not supported"));
  for (Value& item : items) {
    DISTILL_ASSIGN_OR_RETURN(item, filter->second.Call(item, rest));
  }
  return MakeList(std::move(items));
}

// The items, or those with an attribute, of which a test (truth without one) holds or does not hold.
template <bool keep, bool attribute>
Result Select(const Value& input, const Given& given) {
  const Arguments& arguments = given.arguments;
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

}  // namespace

const Builtins& SequenceFilters() {
  static const Builtins kFilters = {
      {"dictsort", {"dictsort", {"case_sensitive", "by", "reverse"}, 0, DictSort}},
      {"first", {"first", {}, 0, End<false>}},
      {"items", {"items", {"..."}, 0, Items}},
      {"join", {"join", {"d", "attribute"}, 0, Join}},
      {"last", {"first", {}, 0, End<true>}},
      {"list", {"list", {}, 0, ToList}},
      {"map", {"map", {"..."}, 0, Map}},
      {"max", {"min", {"case_sensitive", "attribute"}, 0, Extreme<true>}},
      {"min", {"min", {"case_sensitive", "attribute"}, 0, Extreme<false>}},
      {"reject", {"reject", {"..."}, 0, Select<false, false>}},
      {"rejectattr", {"rejectattr", {"..."}, 0, Select<false, true>}},
      {"reverse", {"reverse", {}, 0, Reverse}},
      {"select", {"select", {"..."}, 0, Select<true, false>}},
      {"selectattr", {"selectattr", {"..."}, 0, Select<true, true>}},
      {"sort", {"sort", {"reverse", "case_sensitive", "attribute"}, 0, Sort}},
      {"unique", {"unique", {"case_sensitive", "attribute"}, 0, Unique}},
  };
  return kFilters;
}

}  // namespace distill::jinja
