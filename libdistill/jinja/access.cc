// Attributes, subscripts, slices and membership of values.
#include <algorithm>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/ast.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

bool IsAbsent(const Value& value) { return value.IsUndefined() || value.IsNone(); }

// value[begin:end:step] of `count` items (PySlice_AdjustIndices).
struct SliceRange {
  int64_t begin, end, step;

  std::vector<int64_t> Indices() const {
    std::vector<int64_t> indices;
    for (__int128 i = begin; step < 0 ? i > end : i < end; i += step) indices.push_back(static_cast<int64_t>(i));
    return indices;
  }
};

absl::StatusOr<SliceRange> RangeOf(int64_t count, const Value& begin, const Value& end, const Value& step_value) {
  for (const Value* part : {&begin, &end, &step_value}) {
    if (!IsAbsent(*part) && !part->IsInteger()) return Error("a slice needs integers");
  }
  const int64_t step = IsAbsent(step_value) ? 1 : step_value.integer();
  if (step == 0) return Error("a slice's step is zero");
  const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;
  const auto place = [&](const Value& part, int64_t otherwise) {
    if (IsAbsent(part)) return otherwise;
    const int64_t index = std::clamp<int64_t>(part.integer(), -count - 1, count + 1);
    return std::clamp(index < 0 ? index + count : index, low, high);
  };
  return SliceRange{place(begin, step < 0 ? high : low), place(end, step < 0 ? low : high), step};
}

Result SubRange(const List::Range& range, const SliceRange& slice) {
  int64_t step = 0;
  if (__builtin_mul_overflow(range.step, slice.step, &step)) return Error("a slice's step is too large");
  return MakeRange({range.begin + slice.begin * range.step, range.begin + slice.end * range.step, step});
}

// What would change a dict or list: jinja2's sandbox shows none of them, and they hide the keys of these names.
bool IsForbidden(const Value& value, const std::string& name) {
  static const std::set<absl::string_view> kDict = {"clear", "pop", "popitem", "setdefault", "update"},
                                           kList = {"append", "clear",  "extend",  "insert",
                                                    "pop",    "remove", "reverse", "sort"};
  if (const Dict* dict = value.dict()) return dict->kind == Dict::Kind::kDict && kDict.count(name) > 0;
  return value.list() != nullptr && value.list()->kind == List::Kind::kList && kList.count(name) > 0;
}

Result MacroAttribute(const Function& function, const std::string& name) {
  const Statement& macro = *function.macro;
  if (name == "name") return Value(function.name);
  if (name == "caller") return Value(macro.uses_caller);
  if (name == "catch_kwargs") return Value(macro.uses_kwargs);
  if (name == "catch_varargs") return Value(macro.uses_varargs);
  if (name != "arguments") return Value::MakeUndefined(absl::StrCat("a macro has no attribute '", name, "'"));
  std::vector<Value> names;
  for (const auto& [parameter, otherwise] : macro.parameters) names.emplace_back(parameter);
  return MakeTuple(std::move(names));
}

}  // namespace

Result GetAttribute(const Value& value, const std::string& name) {
  if (value.IsUndefined()) return Error(value.reason());
  if (IsForbidden(value, name)) {
    return Value::MakeUndefined(
        absl::StrCat("'", name, "' would change ", TypeName(value), ", which templates may not do"));
  }
  if (MethodsOf(value).count(name) > 0) {
    return Value(MakeFunction({Function::Kind::kMethod, name, value}));
  }
  if (Object* object = value.object()) return object->Attribute(name);
  if (value.function() != nullptr && value.function()->macro != nullptr) return MacroAttribute(*value.function(), name);
  if (const List* list = value.list(); list != nullptr && list->kind == List::Kind::kGroup) {
    if (name == "grouper" || name == "list") return list->items[name == "list"];
  }
  if (const Dict* dict = value.dict()) {
    if (const Value* member = dict->Find(name)) return *member;
  }
  return Value::MakeUndefined(absl::StrCat(TypeName(value), " has no attribute '", name, "'"));
}

Result GetItem(const Value& value, const Value& key) {
  if (value.IsUndefined()) return Error(value.reason());
  if (const Dict* dict = value.dict()) {
    if (const Value* member = dict->Find(key)) return *member;
  }
  if (key.IsString()) return GetAttribute(value, *key.text());
  const Value missing = Value::MakeUndefined(
      absl::StrCat(TypeName(value), " has no element ", key.IsInteger() ? absl::StrCat(key.integer()) : TypeName(key)));
  if (!key.IsInteger()) return missing;
  const auto place = [&key](size_t count) {  // beyond `count` where there is none
    const int64_t index = key.integer() < 0 ? key.integer() + static_cast<int64_t>(count) : key.integer();
    return index < 0 ? count : static_cast<size_t>(index);
  };
  if (const List* list = value.list(); list != nullptr && !list->IsView()) {
    const size_t index = place(list->items.size());
    return index < list->items.size() ? list->items[index] : missing;
  }
  if (const std::string* text = value.text()) {
    size_t index = place(CountCodePoints(*text));
    for (size_t i = 0; i < text->size(); --index) {
      const size_t begin = i;
      NextCodePoint(*text, &i);
      if (index == 0) return Value(absl::string_view(*text).substr(begin, i - begin));
    }
    return missing;
  }
  return missing;
}

Result Slice(const Value& value, const Value& begin, const Value& end, const Value& step) {
  if (const List* list = value.list(); list != nullptr && !list->IsView()) {
    DISTILL_ASSIGN_OR_RETURN(const SliceRange range, RangeOf(list->items.size(), begin, end, step));
    if (list->kind == List::Kind::kRange) return SubRange(list->range, range);
    std::vector<Value> items;
    for (const int64_t i : range.Indices()) items.push_back(list->items[i]);
    return MakeList(std::move(items), list->IsTuple() ? List::Kind::kTuple : List::Kind::kList);
  }
  if (const std::string* text = value.text()) {
    std::string out;
    if (absl::c_all_of(*text, [](unsigned char c) { return c < 0x80; })) {
      DISTILL_ASSIGN_OR_RETURN(const SliceRange range, RangeOf(text->size(), begin, end, step));
      for (const int64_t i : range.Indices()) out.push_back((*text)[i]);
    } else {
      const std::vector<absl::string_view> characters = CodePoints(*text);
      DISTILL_ASSIGN_OR_RETURN(const SliceRange range, RangeOf(characters.size(), begin, end, step));
      for (const int64_t i : range.Indices()) absl::StrAppend(&out, characters[i]);
    }
    return Value(std::move(out));
  }
  return Error(value.IsUndefined() ? value.reason() : absl::StrCat(TypeName(value), " cannot be sliced"));
}

absl::Status ChargeComparison(const Value& a, const Value& b, Budget& budget) {
  return budget.Read(std::min(ExtentOf(a).bytes, ExtentOf(b).bytes));
}

absl::Status ChargeContains(const Value& container, const Value& item, Budget& budget) {
  if (container.IsString() && item.IsString()) {
    return ChargeSearch(container.text()->size(), item.text()->size(), budget);
  }
  return container.dict() != nullptr ? budget.Read(ExtentOf(item).bytes) : budget.ReadDeep(container);
}

absl::StatusOr<bool> Contains(const Value& container, const Value& item) {
  if (const std::string* text = container.text()) {
    if (!item.IsString()) return Error(absl::StrCat("'in' a string needs a string, not ", TypeName(item)));
    return absl::StrContains(*text, *item.text());
  }
  if (const Dict* dict = container.dict(); dict != nullptr && dict->kind == Dict::Kind::kDict) {
    DISTILL_RETURN_IF_ERROR(Hash(item).status());
    return dict->Find(item) != nullptr;
  }
  if (Object* object = container.object()) {
    for (;;) {
      DISTILL_ASSIGN_OR_RETURN(const std::optional<Value> other, object->Next());
      if (!other.has_value() || Equal(item, *other)) return other.has_value();
    }
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(container));
  return absl::c_any_of(items, [&item](const Value& other) { return Equal(item, other); });
}

}  // namespace distill::jinja
