// Filters that compare the items of a list with one another.
#include <algorithm>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

using Keyed = std::vector<std::pair<Value, Value>>;  // key, item

bool Given0(const Value* value) { return value != nullptr && IsTrue(*value); }

Value IgnoreCase(const Value& key, bool minds_case) {
  return key.IsString() && !minds_case ? Value(ToLower(*key.text())) : key;
}

// What unique, groupby, min and max compare: an attribute, without case unless they are told to mind it.
absl::StatusOr<Keyed> WithKeys(const Value& input, const Value* attribute, bool minds_case, Budget& budget,
                               const Value* otherwise = nullptr) {
  DISTILL_RETURN_IF_ERROR(budget.ReadDeep(input));
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  DISTILL_RETURN_IF_ERROR(budget.BuildItems(items.size()));
  Keyed keyed;
  for (Value& item : items) {
    Value key = item;
    if (attribute != nullptr) {
      DISTILL_ASSIGN_OR_RETURN(key, Lookup(item, *attribute, otherwise));
    }
    key = IgnoreCase(key, minds_case);
    DISTILL_RETURN_IF_ERROR(budget.BuildShallow(key));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  return keyed;
}

// In the order of their keys; equal ones stay in their own.
absl::Status SortByKey(Keyed* keyed, bool reverse, Budget& budget) {
  int64_t bytes = 0, rounds = 1;
  for (const auto& [key, item] : *keyed) bytes += ExtentOf(key).bytes + 16;
  for (size_t n = keyed->size(); n > 1; n /= 2) ++rounds;
  DISTILL_RETURN_IF_ERROR(budget.Read(bytes * rounds));
  absl::Status failure;
  std::stable_sort(keyed->begin(), keyed->end(), [&](const auto& a, const auto& b) {
    const absl::StatusOr<int> order = reverse ? Compare(b.first, a.first) : Compare(a.first, b.first);
    if (!order.ok()) failure = order.status();
    return order.ok() && *order < 0;
  });
  return failure;
}

std::vector<Value> ItemsOf(Keyed keyed) {
  std::vector<Value> items;
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return items;
}

// sort(reverse, case_sensitive, attribute); the attribute may be several ones with commas between.
Result Sort(const Value& input, const Given& given) {
  const bool minds_case = Given0(given[1]);
  std::vector<Value> attributes = {given[2] == nullptr ? Value::MakeNone() : *given[2]};
  if (given[2] != nullptr && given[2]->IsString()) {
    const std::vector<std::string> parts = absl::StrSplit(*given[2]->text(), ',');
    attributes.assign(parts.begin(), parts.end());
  }
  DISTILL_ASSIGN_OR_RETURN(Keyed keyed, WithKeys(input, nullptr, true, given.budget));
  DISTILL_RETURN_IF_ERROR(given.budget.BuildItems(keyed.size() * attributes.size()));
  for (auto& [key, item] : keyed) {
    std::vector<Value> keys;
    for (const Value& attribute : attributes) {
      DISTILL_ASSIGN_OR_RETURN(const Value part, Lookup(item, attribute));
      keys.push_back(IgnoreCase(part, minds_case));
      DISTILL_RETURN_IF_ERROR(given.budget.BuildShallow(keys.back()));
    }
    DISTILL_ASSIGN_OR_RETURN(key, MakeList(std::move(keys)));
  }
  DISTILL_RETURN_IF_ERROR(SortByKey(&keyed, Given0(given[0]), given.budget));
  return MakeList(ItemsOf(std::move(keyed)));
}

// dictsort(case_sensitive, by, reverse): the entries of a dict as pairs, by key or by value.
Result DictSort(const Value& input, const Given& given) {
  const std::string by = given[1] == nullptr ? "key" : ToText(*given[1]);
  if (by != "key" && by != "value") return Error("dictsort: 'by' is neither 'key' nor 'value'");
  const Dict* dict = input.dict();
  if (input.IsUndefined()) return Error(input.reason());
  if (dict == nullptr || dict->kind != Dict::Kind::kDict)
    return Error(absl::StrCat("dictsort: ", TypeName(input), " is no dict"));
  Keyed keyed;
  for (const auto& [name, value] : dict->entries) {
    DISTILL_ASSIGN_OR_RETURN(Value pair, MakeTuple({name, value}));
    keyed.emplace_back(IgnoreCase(by == "key" ? name : value, Given0(given[0])), std::move(pair));
  }
  DISTILL_RETURN_IF_ERROR(given.budget.BuildItems(2 * keyed.size()));
  DISTILL_RETURN_IF_ERROR(SortByKey(&keyed, Given0(given[2]), given.budget));
  return MakeList(ItemsOf(std::move(keyed)));
}

// An iterator, which fails at an item that cannot be hashed.
Result Unique(const Value& input, const Given& given) {
  absl::StatusOr<Keyed> keyed = WithKeys(input, given[1], Given0(given[0]), given.budget);
  if (!keyed.ok()) return MakeGenerator({}, keyed.status());
  std::unordered_multimap<size_t, Value> seen;
  std::vector<Value> items;
  for (auto& [key, item] : *keyed) {
    const absl::StatusOr<size_t> hash = Hash(key);
    if (!hash.ok()) return MakeGenerator(std::move(items), hash.status());
    const auto [begin, end] = seen.equal_range(*hash);
    if (std::any_of(begin, end, [&key = key](const auto& other) { return Equal(key, other.second); })) continue;
    seen.emplace(*hash, key);
    items.push_back(std::move(item));
  }
  return MakeGenerator(std::move(items));
}

template <bool largest>
Result Extreme(const Value& input, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const Keyed keyed, WithKeys(input, given[1], Given0(given[0]), given.budget));
  if (keyed.empty()) return Value::MakeUndefined("No aggregated item, sequence was empty.");
  const auto* best = &keyed.front();
  for (size_t i = 1; i < keyed.size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(const int order, Compare(keyed[i].first, best->first));
    if (largest ? order > 0 : order < 0) best = &keyed[i];
  }
  return best->second;
}

// groupby(attribute, default, case_sensitive): pairs of a key, as the first item has it, and the items with this key.
Result GroupBy(const Value& input, const Given& given) {
  const Value* otherwise = given[1] == nullptr || given[1]->IsNone() ? nullptr : given[1];
  DISTILL_ASSIGN_OR_RETURN(Keyed keyed, WithKeys(input, given[0], Given0(given[2]), given.budget, otherwise));
  DISTILL_RETURN_IF_ERROR(SortByKey(&keyed, false, given.budget));
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size();) {
    const size_t begin = i;
    std::vector<Value> items;
    for (; i < keyed.size() && Equal(keyed[i].first, keyed[begin].first); ++i) items.push_back(keyed[i].second);
    if (i == begin) items.push_back(keyed[i++].second);  // NaN equals nothing
    DISTILL_ASSIGN_OR_RETURN(const Value key, Lookup(items.front(), *given[0], otherwise));
    DISTILL_ASSIGN_OR_RETURN(const Value list, MakeList(std::move(items)));
    DISTILL_ASSIGN_OR_RETURN(groups.emplace_back(), MakeList({key, list}, List::Kind::kGroup));
  }
  DISTILL_RETURN_IF_ERROR(given.budget.BuildItems(3 * groups.size()));
  return MakeList(std::move(groups));
}

// sum(attribute, start)
Result Sum(const Value& input, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const Keyed keyed, WithKeys(input, given[0], true, given.budget));
  Value sum = given[1] == nullptr ? Value(0) : *given[1];
  if (sum.IsString()) return Error("sum: texts are joined by the filter join");
  for (const auto& [key, item] : keyed) {
    DISTILL_RETURN_IF_ERROR(given.budget.Steps(1));
    DISTILL_ASSIGN_OR_RETURN(sum, ApplyOperator("+", sum, key, given.budget));
  }
  return sum;
}

}  // namespace

const Builtins& OrderingFilters() {
  static const Builtins kFilters = {
      {"dictsort", {"dictsort", {"case_sensitive", "by", "reverse"}, 0, DictSort}},
      {"groupby", {"groupby", {"attribute", "default", "case_sensitive"}, 1, GroupBy}},
      {"max", {"max", {"case_sensitive", "attribute"}, 0, Extreme<true>}},
      {"min", {"min", {"case_sensitive", "attribute"}, 0, Extreme<false>}},
      {"sort", {"sort", {"reverse", "case_sensitive", "attribute"}, 0, Sort}},
      {"sum", {"sum", {"attribute", "start"}, 0, Sum}},
      {"unique", {"unique", {"case_sensitive", "attribute"}, 0, Unique}},
  };
  return kFilters;
}

}  // namespace distill::jinja
