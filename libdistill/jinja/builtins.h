// What the template language brings along: attributes and methods of values, filters, tests and global functions. Each
// group is implemented in the file that is named before it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/jinja/arguments.h"
#include "libdistill/jinja/value.h"

namespace distill::jinja {

struct Statement;
struct Scope;

// What can be called: a macro with the scope it was defined in, a method bound to its value, a global function.
struct Function {
  enum class Kind { kMacro, kMethod, kGlobal };
  Kind kind = Kind::kGlobal;
  std::string name;
  Value receiver = {};
  const Statement* macro = nullptr;
  Scope* scope = nullptr;
};

inline std::shared_ptr<const Function> MakeFunction(Function function) {
  return std::make_shared<const Function>(std::move(function));
}

// access.cc: value.name and value[key], in jinja2's order of members and methods; undefined where there is none.
absl::StatusOr<Value> GetAttribute(const Value& value, const std::string& name);
absl::StatusOr<Value> GetItem(const Value& value, const Value& key);
// value[begin:end:step]; parts that are undefined are absent.
absl::StatusOr<Value> Slice(const Value& value, const Value& begin, const Value& end, const Value& step);
// `item in container`, a string's parts included.
absl::StatusOr<bool> Contains(const Value& container, const Value& item);

// operators.cc: Python's operators + - * / // % ** ~ on two values.
absl::StatusOr<Value> ApplyOperator(const std::string& name, const Value& left, const Value& right);

// methods.cc; those of strings: text_methods.cc.
using Method = absl::StatusOr<Value> (*)(const Value& self, const Arguments& arguments);
using Methods = std::map<absl::string_view, Method>;
const Methods& TextMethods();
bool HasMethod(const Value& receiver, absl::string_view name);
absl::StatusOr<Value> CallMethod(const Value& receiver, const std::string& name, const Arguments& arguments);

// globals.cc.
bool HasGlobal(absl::string_view name);
absl::StatusOr<Value> CallGlobal(const std::string& name, const Arguments& arguments);

// filters.cc; those of lists: sequence_filters.cc.
using Filter = absl::StatusOr<Value> (*)(const Value& input, const Arguments& arguments);
const std::map<absl::string_view, Filter>& SequenceFilters();
bool HasFilter(absl::string_view name);
std::string FilterNames();
absl::StatusOr<Value> ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments);

// value_tests.cc.
bool HasTest(absl::string_view name);
std::string TestNames();
absl::StatusOr<bool> ApplyTest(const std::string& name, const Value& input, const std::vector<Value>& arguments);

// to_json.cc: json.dumps as transformers' tojson calls it: arguments ensure_ascii, indent, separators, sort_keys.
absl::StatusOr<Value> ToJson(const Value& value, const Arguments& arguments);

// text_methods.cc: str.strip of Python: whitespace, or the characters of `characters`.
std::string Strip(absl::string_view text, const Value* characters, bool left, bool right);
// str.replace; `count` < 0: all.
absl::StatusOr<Value> Replace(absl::string_view text, absl::string_view from, absl::string_view to, int64_t count);
std::string Capitalize(absl::string_view text);
// The text as a value, or InvalidArgument beyond kMaxTextBytes.
absl::StatusOr<Value> BoundedText(std::string text);

}  // namespace distill::jinja
