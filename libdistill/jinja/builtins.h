// What the template language brings along: attributes and methods of values, filters, tests and global functions. Each
// group is implemented in the file that is named before it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/jinja/value.h"

namespace distill::jinja {

struct Statement;
struct Scope;

using Result = absl::StatusOr<Value>;

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
Result GetAttribute(const Value& value, const std::string& name);
Result GetItem(const Value& value, const Value& key);
// value[begin:end:step]; parts that are undefined are absent.
Result Slice(const Value& value, const Value& begin, const Value& end, const Value& step);
// `item in container`, a string's parts included.
absl::StatusOr<bool> Contains(const Value& container, const Value& item);

// operators.cc: Python's operators + - * / // % ** ~ on two values.
Result ApplyOperator(const std::string& name, const Value& left, const Value& right);

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments of one call: in the order of the parameters, nullptr where one is not given; and as they were written.
struct Given {
  const Arguments& arguments;
  std::vector<const Value*> bound;

  const Value* operator[](size_t i) const { return bound[i]; }
};

// A filter, a method or a global function. `self` is a filter's input, a method's value, nothing for a function.
struct Builtin {
  const char* name;                     // in errors
  std::vector<const char*> parameters;  // {"..."}: `run` looks at the arguments itself
  size_t required;                      // so many of the first ones
  Result (*run)(const Value& self, const Given& given);

  // builtins.cc. InvalidArgument: too many arguments, an unknown name, one given twice or lacking, or what `run` says.
  Result Call(const Value& self, const Arguments& arguments) const;
};
using Builtins = std::map<absl::string_view, Builtin>;

// builtins.cc; those of strings: text_methods.cc.
const Builtins& MethodsOf(const Value& receiver);
const Builtins& TextMethods();
const Builtins& Globals();
// filters.cc; those of lists: sequence_filters.cc.
const Builtins& Filters();
const Builtins& SequenceFilters();
// The text of an argument of `function`, or InvalidArgument for what is no text.
absl::StatusOr<std::string> TextArgument(absl::string_view function, const Value* value);

// value_tests.cc.
struct Test {
  size_t arguments;
  std::function<absl::StatusOr<bool>(const Value& value, const std::vector<Value>& arguments)> holds;
};
const std::map<absl::string_view, Test>& Tests();
absl::StatusOr<bool> ApplyTest(const std::string& name, const Value& input, const std::vector<Value>& arguments);

// to_json.cc: json.dumps as transformers' tojson calls it: arguments ensure_ascii, indent, separators, sort_keys.
Result ToJson(const Value& value, const Given& given);

// text_methods.cc: str.strip of Python: whitespace, or the characters of `characters`.
std::string Strip(absl::string_view text, const Value* characters, bool left, bool right);
// str.replace; `count` < 0: all.
Result Replace(absl::string_view text, absl::string_view from, absl::string_view to, int64_t count);
std::string Capitalize(absl::string_view text);
// Upper and lower case, as Python's strings have them.
std::string ToUpper(absl::string_view text);
std::string ToLower(absl::string_view text);
// Such a function as a filter, or as a method of strings.
template <std::string (*convert)(absl::string_view)>
Result Convert(const Value& self, const Given&) {
  return Value(convert(ToText(self)));
}
// The text as a value, or InvalidArgument beyond kMaxTextBytes.
Result BoundedText(std::string text);

}  // namespace distill::jinja
