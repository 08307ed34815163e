#include "libdistill/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

template <typename T>
int Order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

// Namespaces count as nothing: they print as a word.
Extent ExtentOf(const Value& value) {
  if (const std::string* text = value.text()) return {0, static_cast<int64_t>(text->size())};
  if (const List* list = value.list()) return list->extent;
  if (const Function* function = value.function()) {
    const Extent inner = ExtentOf(function->receiver);
    return {inner.depth + 1, inner.bytes};
  }
  const Dict* dict = value.dict();
  return dict == nullptr || dict->kind == Dict::Kind::kNamespace ? Extent{} : dict->extent;
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

std::string QuotedRepr(const std::string& text) {
  const char quote = absl::StrContains(text, '\'') && !absl::StrContains(text, '"') ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    static constexpr absl::string_view kPlain = "\\\n\r\t", kEscaped = "\\nrt";
    const auto byte = static_cast<unsigned char>(c);
    if (const size_t escape = kPlain.find(c); escape != absl::string_view::npos || c == quote) {
      out += {'\\', c == quote ? c : kEscaped[escape]};
    } else if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppendFormat(&out, "\\x%02x", byte);
    } else {
      out.push_back(c);
    }
  }
  return out + quote;
}

std::string JoinRepr(const std::vector<Value>& items) {
  return absl::StrJoin(items, ", ", [](std::string* out, const Value& item) { *out += ToRepr(item); });
}

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

const Value* Dict::Find(const Value& key) const {
  for (const auto& [name, value] : entries) {
    if (Equal(name, key)) return &value;
  }
  return nullptr;
}

void Dict::Set(const Value& key, Value value) {
  for (auto& [name, old] : entries) {
    if (!Equal(name, key)) continue;
    old = std::move(value);
    return;
  }
  entries.emplace_back(key, std::move(value));
}

absl::StatusOr<Value> MakeList(std::vector<Value> items, bool is_tuple) {
  if (items.size() > kMaxItems) return Error("a list grows beyond a million items");
  Extent extent{1, 0};
  for (const Value& item : items) Add(item, &extent);
  DISTILL_RETURN_IF_ERROR(CheckExtent(extent));
  return Value(std::shared_ptr<const List>(new List{std::move(items), is_tuple, extent}));
}

absl::StatusOr<Value> MakeDict(std::vector<std::pair<Value, Value>> entries) {
  auto dict = std::make_shared<Dict>();
  dict->extent.depth = 1;
  for (auto& [key, value] : entries) {
    if (key.list() != nullptr || key.dict() != nullptr) return Error("a list or dict cannot be a key");
    Add(key, &dict->extent);
    Add(value, &dict->extent);
    dict->Set(key, std::move(value));
  }
  DISTILL_RETURN_IF_ERROR(CheckExtent(dict->extent));
  return Value(std::move(dict));
}

bool IsTrue(const Value& value) {
  if (value.IsNumber()) return value.number() != 0;
  if (const std::string* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return !list->items.empty();
  if (const Dict* dict = value.dict()) return dict->kind != Dict::Kind::kDict || !dict->entries.empty();
  return value.function() != nullptr;
}

bool Equal(const Value& a, const Value& b) {
  if (a.IsInteger() && b.IsInteger()) return a.integer() == b.integer();
  if (a.IsNumber() && b.IsNumber()) return a.number() == b.number();
  if (a.IsString() && b.IsString()) return *a.text() == *b.text();
  if (a.list() != nullptr && b.list() != nullptr) {
    const List &x = *a.list(), &y = *b.list();
    return x.is_tuple == y.is_tuple &&
           std::equal(x.items.begin(), x.items.end(), y.items.begin(), y.items.end(), Equal);
  }
  if (a.dict() != nullptr && b.dict() != nullptr) {
    const Dict &x = *a.dict(), &y = *b.dict();
    if (x.kind != Dict::Kind::kDict || y.kind != Dict::Kind::kDict) return &x == &y;
    return x.entries.size() == y.entries.size() &&
           std::all_of(x.entries.begin(), x.entries.end(), [&y](const auto& entry) {
             const Value* other = y.Find(entry.first);
             return other != nullptr && Equal(entry.second, *other);
           });
  }
  if (a.function() != nullptr || b.function() != nullptr) return a.function() == b.function();
  return (a.IsNone() && b.IsNone()) || (a.IsUndefined() && b.IsUndefined());
}

absl::StatusOr<int> Compare(const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->IsUndefined()) return Error(value->reason());
  }
  if (a.IsInteger() && b.IsInteger()) return Order(a.integer(), b.integer());
  if (a.IsNumber() && b.IsNumber()) return Order(a.number(), b.number());
  if (a.IsString() && b.IsString()) return Order(*a.text(), *b.text());
  if (a.list() != nullptr && b.list() != nullptr && a.list()->is_tuple == b.list()->is_tuple) {
    const std::vector<Value>&x = a.list()->items, &y = b.list()->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!Equal(x[i], y[i])) return Compare(x[i], y[i]);
    }
    return Order(x.size(), y.size());
  }
  return Error(absl::StrCat(TypeName(a), " and ", TypeName(b), " have no order"));
}

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value, format).ptr);
  if (plain && !absl::StrContains(text, '.')) text += ".0";
  return text;
}

std::string ToText(const Value& value) {
  if (const std::string* text = value.text()) return *text;
  return value.IsUndefined() ? "" : ToRepr(value);
}

std::string ToRepr(const Value& value) {
  if (value.IsUndefined()) return "Undefined";
  if (value.IsNone()) return "None";
  if (value.IsBool()) return value.integer() != 0 ? "True" : "False";
  if (value.IsInteger()) return absl::StrCat(value.integer());
  if (value.IsNumber()) return FloatRepr(value.number());
  if (const std::string* text = value.text()) return QuotedRepr(*text);
  if (const List* list = value.list()) {
    if (!list->is_tuple) return absl::StrCat("[", JoinRepr(list->items), "]");
    return absl::StrCat("(", JoinRepr(list->items), list->items.size() == 1 ? ",)" : ")");
  }
  const Dict* dict = value.dict();
  if (dict == nullptr) return "<function>";
  if (dict->kind != Dict::Kind::kDict) return dict->kind == Dict::Kind::kNamespace ? "<Namespace>" : "<LoopContext>";
  const auto add = [](std::string* out, const auto& entry) {
    absl::StrAppend(out, ToRepr(entry.first), ": ", ToRepr(entry.second));
  };
  return absl::StrCat("{", absl::StrJoin(dict->entries, ", ", add), "}");
}

std::string TypeName(const Value& value) {
  if (value.IsUndefined()) return "undefined";
  if (value.IsNone()) return "'None'";
  if (value.IsBool()) return "'bool object'";
  if (value.IsInteger()) return "'int object'";
  if (value.IsNumber()) return "'float object'";
  if (value.IsString()) return "'str object'";
  if (const List* list = value.list()) return list->is_tuple ? "'tuple object'" : "'list object'";
  if (const Dict* dict = value.dict()) {
    if (dict->kind == Dict::Kind::kDict) return "'dict object'";
    return dict->kind == Dict::Kind::kNamespace ? "'namespace object'" : "'loop object'";
  }
  return "'function object'";
}

absl::StatusOr<std::vector<Value>> Iterate(const Value& value) {
  if (value.IsUndefined()) return std::vector<Value>();
  if (const List* list = value.list()) return list->items;
  if (const std::string* text = value.text()) {
    const std::vector<absl::string_view> characters = CodePoints(*text);
    return std::vector<Value>(characters.begin(), characters.end());
  }
  const Dict* dict = value.dict();
  if (dict == nullptr || dict->kind != Dict::Kind::kDict)
    return Error(absl::StrCat(TypeName(value), " is not iterable"));
  std::vector<Value> keys;
  for (const auto& [key, item] : dict->entries) keys.push_back(key);
  return keys;
}

}  // namespace distill::jinja
