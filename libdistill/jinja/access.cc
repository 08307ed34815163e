// Attributes, subscripts, slices and membership of values.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

// Indices of value[begin:end:step] of `count` items (PySlice_AdjustIndices).
absl::StatusOr<std::vector<int64_t>> SliceIndices(int64_t count, const Value& begin, const Value& end,
                                                  const Value& step_value) {
  const auto absent = [](const Value& value) { return value.IsUndefined() || value.IsNone(); };
  for (const Value* part : {&begin, &end, &step_value}) {
    if (!absent(*part) && !part->IsInteger()) return Error("a slice needs integers");
  }
  const int64_t step = absent(step_value) ? 1 : step_value.integer();
  if (step == 0) return Error("a slice's step is zero");
  const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;
  const auto place = [&](const Value& part, int64_t otherwise) {
    if (absent(part)) return otherwise;
    const int64_t index = std::clamp<int64_t>(part.integer(), -count - 1, count + 1);
    return std::clamp(index < 0 ? index + count : index, low, high);
  };
  std::vector<int64_t> indices;
  const int64_t last = place(end, step < 0 ? low : high);
  const int64_t stride = std::clamp<int64_t>(step, -count - 1, count + 1);
  for (int64_t i = place(begin, step < 0 ? high : low); step < 0 ? i > last : i < last; i += stride) {
    indices.push_back(i);
  }
  return indices;
}

}  // namespace

Result GetAttribute(const Value& value, const std::string& name) {
  if (value.IsUndefined()) return Error(value.reason());
  if (MethodsOf(value).count(name) > 0) {
    return Value(MakeFunction({Function::Kind::kMethod, name, value}));
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
  const Value missing =
      Value::MakeUndefined(absl::StrCat(TypeName(value), " has no element ", key.IsUndefined() ? "" : ToRepr(key)));
  if (!key.IsInteger()) return missing;
  const auto place = [&key](size_t count) {  // beyond `count` where there is none
    const int64_t index = key.integer() < 0 ? key.integer() + static_cast<int64_t>(count) : key.integer();
    return index < 0 ? count : static_cast<size_t>(index);
  };
  if (const List* list = value.list()) {
    const size_t index = place(list->items.size());
    return index < list->items.size() ? list->items[index] : missing;
  }
  if (const std::string* text = value.text()) {
    const std::vector<absl::string_view> characters = CodePoints(*text);
    const size_t index = place(characters.size());
    return index < characters.size() ? Value(characters[index]) : missing;
  }
  return missing;
}

Result Slice(const Value& value, const Value& begin, const Value& end, const Value& step) {
  if (const List* list = value.list()) {
    DISTILL_ASSIGN_OR_RETURN(const auto indices, SliceIndices(list->items.size(), begin, end, step));
    std::vector<Value> items;
    for (const int64_t i : indices) items.push_back(list->items[i]);
    return MakeList(std::move(items), list->is_tuple);
  }
  if (const std::string* text = value.text()) {
    std::string out;
    if (absl::c_all_of(*text, [](unsigned char c) { return c < 0x80; })) {
      DISTILL_ASSIGN_OR_RETURN(const auto indices, SliceIndices(text->size(), begin, end, step));
      for (const int64_t i : indices) out.push_back((*text)[i]);
    } else {
      const std::vector<absl::string_view> characters = CodePoints(*text);
      DISTILL_ASSIGN_OR_RETURN(const auto indices, SliceIndices(characters.size(), begin, end, step));
      for (const int64_t i : indices) absl::StrAppend(&out, characters[i]);
    }
    return Value(std::move(out));
  }
  return Error(value.IsUndefined() ? value.reason() : absl::StrCat(TypeName(value), " cannot be sliced"));
}

absl::StatusOr<bool> Contains(const Value& container, const Value& item) {
  if (const std::string* text = container.text()) {
    if (!item.IsString()) return Error(absl::StrCat("'in' a string needs a string, not ", TypeName(item)));
    return absl::StrContains(*text, *item.text());
  }
  if (const Dict* dict = container.dict(); dict != nullptr && dict->kind == Dict::Kind::kDict) {
    return dict->Find(item) != nullptr;
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(container));
  return absl::c_any_of(items, [&item](const Value& other) { return Equal(item, other); });
}

}  // namespace distill::jinja
