#include "libdistill/jinja/value.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

template <typename T>
int Order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

void Add(const Value& value, Extent* extent) {
  const Extent inner = ExtentOf(value);
  extent->depth = std::max(extent->depth, inner.depth + 1);
  extent->bytes += inner.bytes + 16;
}

absl::Status CheckExtent(const Extent& extent) {
  if (extent.depth > kMaxValueDepth) return Error("lists and dicts are nested too deep");
  return extent.bytes > kMaxValueBytes ? Error("a list or dict grows beyond 256 MiB") : absl::OkStatus();
}

// A generator: its items are there already, and what failed behind them fails when it is reached.
class Generator : public Object {
 public:
  Generator(std::vector<Value> items, absl::Status failure) : items_(std::move(items)), failure_(std::move(failure)) {}

  std::string Repr() const override { return "<generator object>"; }
  std::string TypeName() const override { return "'generator object'"; }
  bool IsIterable() const override { return true; }
  absl::StatusOr<std::optional<Value>> Next() override {
    if (next_ < items_.size()) return std::move(items_[next_++]);
    DISTILL_RETURN_IF_ERROR(std::exchange(failure_, absl::OkStatus()));
    return std::nullopt;
  }

 private:
  std::vector<Value> items_;
  size_t next_ = 0;
  absl::Status failure_;
};

constexpr size_t kLinearEntries = 8;  // a dict of so many is searched from its front
constexpr size_t kMaxRange = 100000;  // as jinja2's sandbox

}  // namespace

absl::Status Error(absl::string_view message) { return absl::InvalidArgumentError(std::string(message)); }

int64_t Value::integer() const {
  if (const bool* value = std::get_if<bool>(&data_)) return *value;
  if (const double* value = std::get_if<double>(&data_)) return static_cast<int64_t>(*value);
  const int64_t* value = std::get_if<int64_t>(&data_);
  return value == nullptr ? 0 : *value;
}

double Value::number() const {
  const double* value = std::get_if<double>(&data_);
  return value == nullptr ? static_cast<double>(integer()) : *value;
}

const std::string& Value::reason() const {
  static const std::string kDefault = "the value is undefined";
  const Undefined* undefined = std::get_if<Undefined>(&data_);
  return undefined == nullptr || undefined->reason == nullptr ? kDefault : *undefined->reason;
}

size_t Dict::IndexOf(const Value& key) const {
  if (by_hash_.empty()) {
    size_t i = 0;
    while (i < entries.size() && !Equal(entries[i].first, key)) ++i;
    return i;
  }
  const absl::StatusOr<size_t> hash = Hash(key);
  if (!hash.ok()) return entries.size();
  const auto [begin, end] = by_hash_.equal_range(*hash);
  for (auto entry = begin; entry != end; ++entry) {
    if (Equal(entries[entry->second].first, key)) return entry->second;
  }
  return entries.size();
}

const Value* Dict::Find(const Value& key) const {
  const size_t i = IndexOf(key);
  return i == entries.size() ? nullptr : &entries[i].second;
}

void Dict::Set(const Value& key, Value value) {
  const size_t i = IndexOf(key);
  if (i < entries.size()) {
    entries[i].second = std::move(value);
    return;
  }
  entries.emplace_back(key, std::move(value));
  if (entries.size() <= kLinearEntries) return;
  for (size_t k = by_hash_.empty() ? 0 : i; k < entries.size(); ++k) {
    by_hash_.emplace(Hash(entries[k].first).value_or(0), k);
  }
}

absl::StatusOr<Value> Object::Attribute(absl::string_view name) {
  return Value::MakeUndefined(absl::StrCat(TypeName(), " has no attribute '", name, "'"));
}

absl::StatusOr<std::optional<Value>> Object::Next() { return Error(absl::StrCat(TypeName(), " is not iterable")); }

// Namespaces count as nothing: they print as a word.
Extent ExtentOf(const Value& value) {
  if (const std::string* text = value.text()) return {0, static_cast<int64_t>(text->size())};
  if (const List* list = value.list()) return list->extent;
  if (const Object* object = value.object()) return object->extent;
  if (const Function* function = value.function()) {
    const Extent inner = ExtentOf(function->receiver);
    return {inner.depth + 1, inner.bytes};
  }
  const Dict* dict = value.dict();
  return dict == nullptr || dict->kind == Dict::Kind::kNamespace ? Extent{} : dict->extent;
}

absl::StatusOr<Value> MakeList(std::vector<Value> items, List::Kind kind) {
  if (items.size() > kMaxItems) return Error("a list grows beyond a million items");
  Extent extent{1, 0};
  for (const Value& item : items) Add(item, &extent);
  DISTILL_RETURN_IF_ERROR(CheckExtent(extent));
  return Value(std::shared_ptr<const List>(new List{std::move(items), kind, extent}));
}

absl::StatusOr<Value> MakeTuple(std::vector<Value> items) { return MakeList(std::move(items), List::Kind::kTuple); }

absl::StatusOr<Value> MakeDict(std::vector<std::pair<Value, Value>> entries) {
  if (entries.size() > kMaxItems) return Error("a dict grows beyond a million entries");
  auto dict = std::make_shared<Dict>();
  dict->extent.depth = 1;
  for (auto& [key, value] : entries) {
    DISTILL_RETURN_IF_ERROR(Hash(key).status());
    Add(key, &dict->extent);
    Add(value, &dict->extent);
    dict->Set(key, std::move(value));
  }
  DISTILL_RETURN_IF_ERROR(CheckExtent(dict->extent));
  return Value(std::move(dict));
}

absl::StatusOr<Value> MakeRange(List::Range range) {
  std::vector<Value> items;
  // In 128 bits no border overflows.
  for (__int128 i = range.begin; range.step > 0 ? i < range.end : i > range.end; i += range.step) {
    if (items.size() >= kMaxRange) return Error(absl::StrCat("range() is longer than ", kMaxRange));
    items.emplace_back(static_cast<int64_t>(i));
  }
  const Extent extent{1, 16 * static_cast<int64_t>(items.size())};
  return Value(std::shared_ptr<const List>(new List{std::move(items), List::Kind::kRange, extent, range}));
}

absl::StatusOr<Value> MakeGenerator(std::vector<Value> items, absl::Status failure) {
  if (items.size() > kMaxItems) return Error("an iterator grows beyond a million items");
  Extent extent{1, 0};
  for (const Value& item : items) Add(item, &extent);
  DISTILL_RETURN_IF_ERROR(CheckExtent(extent));
  auto generator = std::make_shared<Generator>(std::move(items), std::move(failure));
  generator->extent = extent;
  return Value(std::shared_ptr<Object>(std::move(generator)));
}

absl::StatusOr<size_t> Hash(const Value& value) {
  if (value.IsNumber()) return std::hash<double>()(value.number());
  if (const std::string* text = value.text()) return std::hash<std::string>()(*text);
  if (const Function* function = value.function()) return std::hash<const void*>()(function);
  if (const Object* object = value.object()) return std::hash<const void*>()(object);
  if (value.IsNone() || value.IsUndefined()) return value.IsNone();
  const List* list = value.list();
  if (list == nullptr && value.dict()->kind == Dict::Kind::kNamespace) return std::hash<const void*>()(value.dict());
  if (list == nullptr || !(list->IsTuple() || list->kind == List::Kind::kRange)) {
    return Error(absl::StrCat(TypeName(value), " cannot be a key"));
  }
  size_t hash = list->items.size();
  for (const Value& item : list->items) {
    DISTILL_ASSIGN_OR_RETURN(const size_t inner, Hash(item));
    hash = hash * 31 + inner;
  }
  return hash;
}

bool IsTrue(const Value& value) {
  if (value.IsNumber()) return value.number() != 0;
  if (const std::string* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return !list->items.empty();
  if (const Dict* dict = value.dict()) return dict->kind != Dict::Kind::kDict || !dict->entries.empty();
  return value.function() != nullptr || value.object() != nullptr;
}

namespace {

bool EqualLists(const List& a, const List& b) {
  if (&a == &b) return true;
  if (a.IsView() || b.IsView()) {  // keys and items compare as sets
    const auto is_set = [](const List& list) { return list.IsView() && list.kind != List::Kind::kValues; };
    return is_set(a) && is_set(b) && a.items.size() == b.items.size() &&
           std::all_of(a.items.begin(), a.items.end(), [&b](const Value& item) {
             return std::any_of(b.items.begin(), b.items.end(), [&](const Value& other) { return Equal(item, other); });
           });
  }
  return (a.kind == b.kind || (a.IsTuple() && b.IsTuple())) &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), Equal);
}

}  // namespace

bool Equal(const Value& a, const Value& b) {
  if (a.IsInteger() && b.IsInteger()) return a.integer() == b.integer();
  if (a.IsNumber() && b.IsNumber()) return a.number() == b.number();
  if (a.IsString() && b.IsString()) return a.text() == b.text() || *a.text() == *b.text();
  if (a.list() != nullptr && b.list() != nullptr) return EqualLists(*a.list(), *b.list());
  if (a.dict() != nullptr && b.dict() != nullptr) {
    const Dict &x = *a.dict(), &y = *b.dict();
    if (&x == &y || x.kind != Dict::Kind::kDict || y.kind != Dict::Kind::kDict) return &x == &y;
    return x.entries.size() == y.entries.size() &&
           std::all_of(x.entries.begin(), x.entries.end(), [&y](const auto& entry) {
             const Value* other = y.Find(entry.first);
             return other != nullptr && Equal(entry.second, *other);
           });
  }
  if (a.function() != nullptr || b.function() != nullptr) return a.function() == b.function();
  if (a.object() != nullptr || b.object() != nullptr) return a.object() == b.object();
  return (a.IsNone() && b.IsNone()) || (a.IsUndefined() && b.IsUndefined());
}

absl::StatusOr<int> Compare(const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->IsUndefined()) return Error(value->reason());
  }
  if (a.IsInteger() && b.IsInteger()) return Order(a.integer(), b.integer());
  if (a.IsNumber() && b.IsNumber()) return Order(a.number(), b.number());
  if (a.IsString() && b.IsString()) return a.text() == b.text() ? 0 : Order(*a.text(), *b.text());
  const auto ordered = [](const List* list) {
    return list != nullptr && (list->IsTuple() || list->kind == List::Kind::kList);
  };
  if (ordered(a.list()) && ordered(b.list()) && a.list()->IsTuple() == b.list()->IsTuple()) {
    const std::vector<Value>&x = a.list()->items, &y = b.list()->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!Equal(x[i], y[i])) return Compare(x[i], y[i]);
    }
    return Order(x.size(), y.size());
  }
  return Error(absl::StrCat(TypeName(a), " and ", TypeName(b), " have no order"));
}

std::string TypeName(const Value& value) {
  if (value.IsUndefined()) return "undefined";
  if (value.IsNone()) return "'None'";
  if (value.IsBool()) return "'bool object'";
  if (value.IsInteger()) return "'int object'";
  if (value.IsNumber()) return "'float object'";
  if (value.IsString()) return "'str object'";
  if (const List* list = value.list()) {
    static constexpr const char* kNames[] = {"'list object'",      "'tuple object'",     "'tuple object'",
                                             "'range object'",     "'dict_keys object'", "'dict_values object'",
                                             "'dict_items object'"};
    return kNames[static_cast<size_t>(list->kind)];
  }
  if (const Object* object = value.object()) return object->TypeName();
  if (const Dict* dict = value.dict()) {
    return dict->kind == Dict::Kind::kDict ? "'dict object'" : "'namespace object'";
  }
  return "'function object'";
}

absl::StatusOr<std::vector<Value>> Iterate(const Value& value) {
  if (value.IsUndefined()) return std::vector<Value>();
  if (const List* list = value.list()) return list->items;
  if (const std::string* text = value.text()) {
    if (CountCodePoints(*text) > kMaxItems) return Error("a text of more than a million characters is not a list");
    const std::vector<absl::string_view> characters = CodePoints(*text);
    return std::vector<Value>(characters.begin(), characters.end());
  }
  if (!IsIterable(value)) return Error(absl::StrCat(TypeName(value), " is not iterable"));
  if (Object* object = value.object()) {
    std::vector<Value> items;
    for (;;) {
      DISTILL_ASSIGN_OR_RETURN(std::optional<Value> item, object->Next());
      if (!item.has_value()) return items;
      items.push_back(*std::move(item));
    }
  }
  const Dict* dict = value.dict();
  std::vector<Value> keys;
  for (const auto& [key, item] : dict->entries) keys.push_back(key);
  return keys;
}

bool IsIterable(const Value& value) {
  if (const Object* object = value.object()) return object->IsIterable();
  if (const Dict* dict = value.dict()) return dict->kind == Dict::Kind::kDict;
  return value.IsUndefined() || value.IsString() || value.list() != nullptr;
}

}  // namespace distill::jinja
