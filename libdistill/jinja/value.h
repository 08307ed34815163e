// Values of the template language, with Python's meaning of truth, equality, order and text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill::jinja {

struct List;
struct Dict;
struct Function;
class Object;
class Value;

// jinja2's default Undefined: empty text, false, no members; an error on anything else. `reason` is that error.
struct Undefined {
  std::shared_ptr<const std::string> reason;
};
struct None {};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                            std::shared_ptr<const List>, std::shared_ptr<Dict>, std::shared_ptr<const Function>,
                            std::shared_ptr<Object>>;

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
  Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}
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
  Object* object() const { return Pointee<std::shared_ptr<Object>>(); }
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

// What Python prints and compares each in its own way: lists, tuples, a group of the filter groupby (a tuple with two
// names), range(), and the views of a dict.
struct List {
  enum class Kind { kList, kTuple, kGroup, kRange, kKeys, kValues, kItems };

  std::vector<Value> items;
  Kind kind = Kind::kList;
  Extent extent;
  struct Range {
    int64_t begin = 0, end = 0, step = 1;
  } range = {};  // of a kRange

  bool IsTuple() const { return kind == Kind::kTuple || kind == Kind::kGroup; }
  bool IsView() const { return kind >= Kind::kKeys; }  // without subscripts
};

struct Dict {
  enum class Kind { kDict, kNamespace };
  std::vector<std::pair<Value, Value>> entries;  // in the order of insertion; only Set adds to them
  Kind kind = Kind::kDict;
  Extent extent;

  const Value* Find(const Value& key) const;
  // The key is hashable.
  void Set(const Value& key, Value value);

 private:
  size_t IndexOf(const Value& key) const;            // entries.size() where there is none
  std::unordered_multimap<size_t, size_t> by_hash_;  // of large ones: index into entries
};

// A value with a state of its own: what map() and its like yield, the variable `loop`. Of one rendering, in one thread.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string Repr() const = 0;
  // "'generator object'"
  virtual std::string TypeName() const = 0;
  // Undefined where there is none.
  virtual absl::StatusOr<Value> Attribute(absl::string_view name);
  // Whether Next may be called: the next item, nothing after the last one.
  virtual bool IsIterable() const { return false; }
  virtual absl::StatusOr<std::optional<Value>> Next();

  Extent extent;
};

// InvalidArgument: nested too deep, or too large; a key that cannot be hashed.
absl::StatusOr<Value> MakeList(std::vector<Value> items, List::Kind kind = List::Kind::kList);
absl::StatusOr<Value> MakeTuple(std::vector<Value> items);
absl::StatusOr<Value> MakeDict(std::vector<std::pair<Value, Value>> entries);
// The numbers of Python's range(begin, end, step); `step` is not zero. InvalidArgument: more than 100,000.
absl::StatusOr<Value> MakeRange(List::Range range);
// An iterator over `items`, which fails behind them where `failure` is an error.
absl::StatusOr<Value> MakeGenerator(std::vector<Value> items, absl::Status failure = absl::OkStatus());

Extent ExtentOf(const Value& value);
// Python's hash(): equal values have equal ones. InvalidArgument: lists, dicts and their like.
absl::StatusOr<size_t> Hash(const Value& value);

bool IsTrue(const Value& value);
bool Equal(const Value& a, const Value& b);
// Negative, zero or positive. InvalidArgument: kinds that have no order.
absl::StatusOr<int> Compare(const Value& a, const Value& b);

// str() and repr() of Python; cut off behind kMaxTextBytes, where BoundedText refuses them.
std::string ToText(const Value& value);
std::string ToRepr(const Value& value);
std::string FloatRepr(double value);
// "'dict object'", "'None'": how errors call it.
std::string TypeName(const Value& value);

// The items of a list, the keys of a dict, the characters of a string, nothing for undefined, what is left of an
// iterator, which is empty then. InvalidArgument: others.
absl::StatusOr<std::vector<Value>> Iterate(const Value& value);
bool IsIterable(const Value& value);

absl::Status Error(absl::string_view message);
// Limits on what a template may build.
constexpr size_t kMaxTextBytes = size_t{64} << 20;
constexpr size_t kMaxItems = 1 << 20;
constexpr int kMaxValueDepth = 200;
constexpr int64_t kMaxValueBytes = int64_t{256} << 20;

}  // namespace distill::jinja
