// Filters over lists, and over whatever else can be iterated.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

Result Join(const Value& input, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  const std::string separator = given[0] == nullptr ? "" : ToText(*given[0]);
  std::string out;
  for (size_t i = 0; i < items.size() && out.size() <= kMaxTextBytes; ++i) {
    if (i > 0) out += separator;
    Value item = items[i];
    if (given[1] != nullptr) {
      DISTILL_ASSIGN_OR_RETURN(item, Lookup(item, *given[1]));
    }
    out += ToText(item);
  }
  return BoundedText(std::move(out));
}

Result First(const Value& input, const Given&) {
  if (Object* object = input.object(); object != nullptr && object->IsIterable()) {
    DISTILL_ASSIGN_OR_RETURN(const std::optional<Value> item, object->Next());
    return item.has_value() ? *item : Value::MakeUndefined("No first item, sequence was empty.");
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  return items.empty() ? Value::MakeUndefined("No first item, sequence was empty.") : items.front();
}

Result Last(const Value& input, const Given&) {
  if (input.object() != nullptr) return Error(absl::StrCat("last: ", TypeName(input), " has no last item"));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  return items.empty() ? Value::MakeUndefined("No last item, sequence was empty.") : items.back();
}

Result ToList(const Value& input, const Given&) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  return MakeList(std::move(items));
}

Result Items(const Value& input, const Given& given) {
  if (input.IsUndefined()) return MakeGenerator({});
  const Dict* dict = input.dict();
  if (dict == nullptr || dict->kind != Dict::Kind::kDict) {
    return MakeGenerator({}, Error(absl::StrCat("items: ", TypeName(input), " is no dict")));
  }
  DISTILL_ASSIGN_OR_RETURN(const Value view, MethodsOf(input).at("items").Call(input, {}, given.budget));
  return MakeGenerator(view.list()->items);
}

Result Reverse(const Value& input, const Given&) {
  if (input.IsString()) return Slice(input, Value(), Value(), Value(-1));
  DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(input));
  std::reverse(items.begin(), items.end());
  return input.object() != nullptr ? MakeList(std::move(items)) : MakeGenerator(std::move(items));
}

// An iterator over what `map` makes of each item, which fails where it fails; over nothing for what is not true.
Result Lazily(const Value& input, absl::FunctionRef<absl::Status(const Value& item, std::vector<Value>* out)> map) {
  if (!IsTrue(input)) return MakeGenerator({});
  absl::StatusOr<std::vector<Value>> items = Iterate(input);
  if (!items.ok()) return MakeGenerator({}, items.status());
  std::vector<Value> out;
  for (const Value& item : *items) {
    absl::Status status = map(item, &out);
    if (!status.ok()) return MakeGenerator(std::move(out), std::move(status));
  }
  return MakeGenerator(std::move(out));
}

// map(attribute="name", default=...) or map("filter", arguments...).
Result Map(const Value& input, const Given& given) {
  static const std::vector<const char*> kNames = {"attribute", "default"};
  const auto& positional = given.arguments.positional;
  const auto& named = given.arguments.named;
  DISTILL_RETURN_IF_ERROR(given.budget.BuildItems(input.list() == nullptr ? 0 : input.list()->items.size()));
  const auto of_name = [&named = named](absl::string_view name) -> const Value* {
    for (const auto& [key, value] : named) {
      if (key == name) return &value;
    }
    return nullptr;
  };
  if (positional.empty()) {
    const Value *attribute = of_name("attribute"), *otherwise = of_name("default");
    return Lazily(input, [&](const Value& item, std::vector<Value>* out) -> absl::Status {
      if (attribute == nullptr || named.size() > (otherwise == nullptr ? 1 : 2))
        return Error("map: needs a filter, or attribute and default");
      if (otherwise != nullptr && otherwise->IsNone()) otherwise = nullptr;
      DISTILL_ASSIGN_OR_RETURN(out->emplace_back(), Lookup(item, *attribute, otherwise));
      return absl::OkStatus();
    });
  }
  Arguments rest = given.arguments;
  const std::string name = ToText(rest.positional[0]);
  rest.positional.erase(rest.positional.begin());
  const auto filter = Filters().find(name);
  return Lazily(input, [&](const Value& item, std::vector<Value>* out) -> absl::Status {
    if (filter == Filters().end()) return Error(absl::StrCat("map: the filter '", Shorten(name), "' is not supported"));
    DISTILL_RETURN_IF_ERROR(given.budget.Steps(1));
    DISTILL_ASSIGN_OR_RETURN(Value value, filter->second.Call(item, rest, given.budget));
    out->push_back(std::move(value));
    return absl::OkStatus();
  });
}

// The items, or those with an attribute, of which a test (truth without one) holds or does not hold.
template <bool keep, bool attribute>
Result Select(const Value& input, const Given& given) {
  const auto& positional = given.arguments.positional;
  const auto& named = given.arguments.named;
  const size_t used = attribute ? 1 : 0;
  std::vector<Value> test(positional.begin() + std::min(used, positional.size()), positional.end());
  std::string name;
  if (!test.empty()) {
    name = ToText(test.front());
    test.erase(test.begin());
  }
  return Lazily(input, [&](const Value& item, std::vector<Value>* out) -> absl::Status {
    if (!named.empty() || positional.size() < used) return Error("select, reject and their like: wrong arguments");
    DISTILL_RETURN_IF_ERROR(given.budget.Steps(1));
    Value subject = item;
    if (attribute) {
      DISTILL_ASSIGN_OR_RETURN(subject, Lookup(item, positional[0]));
    }
    bool holds = IsTrue(subject);
    if (positional.size() > used) {
      DISTILL_ASSIGN_OR_RETURN(holds, ApplyTest(name, subject, test, given.budget));
    }
    if (holds == keep) out->push_back(item);
    return absl::OkStatus();
  });
}

absl::StatusOr<int64_t> Count(absl::string_view filter, const Value& value) {
  if (!value.IsInteger()) return Error(absl::StrCat(filter, ": needs an integer, not ", TypeName(value)));
  return value.integer();
}

// batch(linecount, fill_with): lists of so many items.
Result Batch(const Value& input, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  DISTILL_ASSIGN_OR_RETURN(const int64_t size, Count("batch", *given[0]));
  std::vector<Value> batches;
  for (size_t i = 0; i < items.size();) {
    std::vector<Value> batch;
    do batch.push_back(items[i++]);
    while (i < items.size() && static_cast<int64_t>(batch.size()) != size);
    if (given[1] != nullptr && !given[1]->IsNone() && i == items.size()) {
      if (size > static_cast<int64_t>(kMaxItems)) return Error("a list grows beyond a million items");
      while (static_cast<int64_t>(batch.size()) < size) batch.push_back(*given[1]);
    }
    DISTILL_ASSIGN_OR_RETURN(batches.emplace_back(), MakeList(std::move(batch)));
    DISTILL_RETURN_IF_ERROR(given.budget.BuildShallow(batches.back()));
  }
  return MakeGenerator(std::move(batches));
}

// slice(slices, fill_with): so many lists of about the same length.
Result SliceFilter(const Value& input, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  DISTILL_ASSIGN_OR_RETURN(const int64_t slices, Count("slice", *given[0]));
  if (slices == 0) return MakeGenerator({}, Error("division by zero"));
  if (slices > static_cast<int64_t>(kMaxItems)) return Error("a list grows beyond a million items");
  const auto size = static_cast<int64_t>(items.size());
  DISTILL_RETURN_IF_ERROR(given.budget.BuildItems(std::max<int64_t>(slices, 0) + size));
  std::vector<Value> out;
  for (int64_t i = 0, begin = 0; i < slices; ++i) {
    const int64_t length = size / slices + (i < size % slices);
    std::vector<Value> slice(items.begin() + begin, items.begin() + begin + length);
    begin += length;
    if (given[1] != nullptr && !given[1]->IsNone() && i >= size % slices) slice.push_back(*given[1]);
    DISTILL_ASSIGN_OR_RETURN(out.emplace_back(), MakeList(std::move(slice)));
  }
  return MakeGenerator(std::move(out));
}

}  // namespace

Result Lookup(Value item, const Value& path, const Value* otherwise) {
  if (path.IsNone()) return item;
  std::vector<Value> parts = {path};
  if (const std::string* text = path.text()) {
    parts.clear();
    for (const absl::string_view part : absl::StrSplit(*text, '.')) {
      int64_t index = 0;
      const bool is_index =
          !part.empty() && absl::c_all_of(part, absl::ascii_isdigit) && absl::SimpleAtoi(part, &index);
      parts.push_back(is_index ? Value(index) : Value(part));
    }
  }
  for (const Value& part : parts) {
    DISTILL_ASSIGN_OR_RETURN(item, GetItem(item, part));
    if (otherwise != nullptr && item.IsUndefined()) item = *otherwise;
  }
  return item;
}

const Builtins& SequenceFilters() {
  static const Builtins kFilters = {
      {"batch", {"batch", {"linecount", "fill_with"}, 1, Batch}},
      {"first", {"first", {}, 0, First}},
      {"items", {"items", {}, 0, Items}},
      {"join", {"join", {"d", "attribute"}, 0, Join}},
      {"last", {"last", {}, 0, Last}},
      {"list", {"list", {}, 0, ToList}},
      {"map", {"map", {"..."}, 0, Map}},
      {"reject", {"reject", {"..."}, 0, Select<false, false>}},
      {"rejectattr", {"rejectattr", {"..."}, 0, Select<false, true>}},
      {"reverse", {"reverse", {}, 0, Reverse}},
      {"select", {"select", {"..."}, 0, Select<true, false>}},
      {"selectattr", {"selectattr", {"..."}, 0, Select<true, true>}},
      {"slice", {"slice", {"slices", "fill_with"}, 1, SliceFilter}},
  };
  return kFilters;
}

}  // namespace distill::jinja
