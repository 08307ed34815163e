// Values of the template language, with Python's meaning of truth, equality, order and text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill::jinja {

struct List;
struct Dict;
struct Function;
class Value;

// jinja2's default Undefined: empty text, false, no members; an error on anything else. `reason` is that error.
struct Undefined {
  std::shared_ptr<const std::string> reason;
};
struct None {};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                            std::shared_ptr<const List>, std::shared_ptr<Dict>, std::shared_ptr<const Function>>;

  Value() = default;
  Value(bool value) : data_(value) {}
  Value(int value) : data_(int64_t{value}) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(absl::string_view text) : Value(std::string(text)) {}
  Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}
  Value(std::shared_ptr<Dict> dict) : data_(std::move(dict)) {}
  Value(std::shared_ptr<const Function> function) : data_(std::move(function)) {}
  static Value MakeNone() { return Value(Data(None{})); }
  static Value MakeUndefined(std::string reason) {
    return Value(Data(Undefined{std::make_shared<const std::string>(std::move(reason))}));
  }
  static Value MakeCount(size_t count) { return Value(static_cast<int64_t>(count)); }

  bool IsUndefined() const { return std::holds_alternative<Undefined>(data_); }
  bool IsNone() const { return std::holds_alternative<None>(data_); }
  bool IsBool() const { return std::holds_alternative<bool>(data_); }
  bool IsString() const { return text() != nullptr; }
  bool IsNumber() const { return IsInteger() || std::holds_alternative<double>(data_); }
  bool IsInteger() const { return std::holds_alternative<int64_t>(data_) || IsBool(); }  // True is 1
  // nullptr where the value is of another kind.
  const std::string* text() const { return Pointee<std::shared_ptr<const std::string>>(); }
  const List* list() const { return Pointee<std::shared_ptr<const List>>(); }
  Dict* dict() const { return Pointee<std::shared_ptr<Dict>>(); }
  std::shared_ptr<Dict> shared_dict() const { return std::get<std::shared_ptr<Dict>>(data_); }
  const Function* function() const { return Pointee<std::shared_ptr<const Function>>(); }
  // Of numbers only.
  int64_t integer() const;
  double number() const;
  // Why the value is undefined: "'x' is undefined".
  const std::string& reason() const;

 private:
  explicit Value(Data data) : data_(std::move(data)) {}
  template <typename T>
  auto Pointee() const -> decltype(std::declval<T>().get()) {
    const T* pointer = std::get_if<T>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  Data data_;
};

// How deep lists and dicts lie within one another, and about how many bytes their text has: both are bounded when they
// are built, so that walking over them is.
struct Extent {
  int depth = 0;
  int64_t bytes = 0;
};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  Extent extent;
};

struct Dict {
  enum class Kind { kDict, kNamespace, kLoop };
  std::vector<std::pair<Value, Value>> entries;  // in the order of insertion
  Kind kind = Kind::kDict;
  Extent extent;

  const Value* Find(const Value& key) const;
  void Set(const Value& key, Value value);
};

// InvalidArgument: nested too deep, or too large.
absl::StatusOr<Value> MakeList(std::vector<Value> items, bool is_tuple = false);
absl::StatusOr<Value> MakeDict(std::vector<std::pair<Value, Value>> entries);

bool IsTrue(const Value& value);
bool Equal(const Value& a, const Value& b);
// Negative, zero or positive. InvalidArgument: kinds that have no order.
absl::StatusOr<int> Compare(const Value& a, const Value& b);

// str() and repr() of Python.
std::string ToText(const Value& value);
std::string ToRepr(const Value& value);
std::string FloatRepr(double value);
// "'dict object'", "'None'": how errors call it.
std::string TypeName(const Value& value);

// The items of a list, the keys of a dict, the characters of a string, nothing for undefined. InvalidArgument: others.
absl::StatusOr<std::vector<Value>> Iterate(const Value& value);

absl::Status Error(absl::string_view message);
// Limits on what a template may build.
constexpr size_t kMaxTextBytes = size_t{64} << 20;
constexpr size_t kMaxItems = 1 << 20;
constexpr int kMaxValueDepth = 200;
constexpr int64_t kMaxValueBytes = int64_t{256} << 20;

}  // namespace distill::jinja
