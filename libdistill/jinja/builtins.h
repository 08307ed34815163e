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
#include "libdistill/jinja/budget.h"
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

// An error's part that a template chose: not more of it than one reads.
std::string Shorten(absl::string_view text);

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

// Charge for `a == b` or `a < b`, and for `item in container`.
absl::Status ChargeComparison(const Value& a, const Value& b, Budget& budget);
absl::Status ChargeContains(const Value& container, const Value& item, Budget& budget);

// operators.cc: Python's operators + - * / // % ** ~ on two values.
Result ApplyOperator(const std::string& name, const Value& left, const Value& right, Budget& budget);

// percent_format.cc: Python's `format % values`.
Result FormatPercent(const std::string& format, const Value& values);

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments of one call: in the order of the parameters, nullptr where one is not given; and as they were written.
struct Given {
  const Arguments& arguments;
  std::vector<const Value*> bound;
  Budget& budget;

  const Value* operator[](size_t i) const { return bound[i]; }
};

// A filter, a method or a global function. `self` is a filter's input, a method's value, nothing for a function.
struct Builtin {
  const char* name;                     // in errors
  std::vector<const char*> parameters;  // {"..."}: `run` looks at the arguments itself
  size_t required;                      // so many of the first ones
  Result (*run)(const Value& self, const Given& given);

  // builtins.cc. InvalidArgument: too many arguments, an unknown name, one given twice or lacking, or what `run` says.
  // Charges the budget for the text or items of `self` and of the result; what costs more is charged by `run`.
  Result Call(const Value& self, const Arguments& arguments, Budget& budget) const;
};
using Builtins = std::map<absl::string_view, Builtin>;

// builtins.cc; those of strings: text_methods.cc.
const Builtins& MethodsOf(const Value& receiver);
const Builtins& TextMethods();
const Builtins& Globals();
// filters.cc; those of texts: text_filters.cc; of lists: sequence_filters.cc, ordering_filters.cc.
const Builtins& Filters();
const Builtins& TextFilters();
const Builtins& SequenceFilters();
const Builtins& OrderingFilters();
// sequence_filters.cc: "a.b.0" of an item, as map and sort look it up; `otherwise` stands for parts that are undefined.
Result Lookup(Value item, const Value& path, const Value* otherwise = nullptr);
// The text of an argument of `function`, or InvalidArgument for what is no text.
absl::StatusOr<std::string> TextArgument(absl::string_view function, const Value* value);

// value_tests.cc.
struct Test {
  size_t arguments;
  std::function<absl::StatusOr<bool>(const Value& value, const std::vector<Value>& arguments)> holds;
};
const std::map<absl::string_view, Test>& Tests();
absl::StatusOr<bool> ApplyTest(const std::string& name, const Value& input, const std::vector<Value>& arguments,
                               Budget& budget);

// to_json.cc: json.dumps as transformers' tojson calls it: arguments ensure_ascii, indent, separators, sort_keys.
Result ToJson(const Value& value, const Given& given);

// text_methods.cc: str.strip of Python: whitespace, or the characters of `characters`.
std::string Strip(absl::string_view text, const Value* characters, bool left, bool right);
// str.replace; `count` < 0: all.
Result Replace(absl::string_view text, absl::string_view from, absl::string_view to, int64_t count);
// split_text.cc: Python's str.split, at white space where `separator` is empty; limit < 0: everywhere.
std::vector<std::string> SplitText(const std::string& text, const std::string& separator, int64_t limit, bool from_end);
// str.splitlines.
std::vector<std::string> SplitLines(absl::string_view text, bool keep_ends = false);
// Python's str.isspace, which also counts the separators U+001C to U+001F.
bool IsSpace(char32_t c);
bool IsDigit(char32_t c);          // str.isdigit
bool IsWordCharacter(char32_t c);  // \w of a regular expression
// Charges for a search of a part of so many bytes in a text.
absl::Status ChargeSearch(size_t text_bytes, size_t part_bytes, Budget& budget);

// letter_case.cc: upper and lower case, as Python's strings have them, with Unicode's special cases.
std::string ToUpper(absl::string_view text);
std::string ToLower(absl::string_view text);
std::string ToTitle(absl::string_view text);
std::string Capitalize(absl::string_view text);
std::string SwapCase(absl::string_view text);
enum class LetterCase { kNone, kLower, kUpper, kTitle };
LetterCase CaseOf(char32_t c);
bool IsCased(char32_t c);
// str.islower and str.isupper.
bool IsInCase(absl::string_view text, LetterCase letter_case);

// Such a function as a filter, or as a method of strings.
template <std::string (*convert)(absl::string_view)>
Result Convert(const Value& self, const Given&) {
  return Value(convert(ToText(self)));
}
// The text as a value, or InvalidArgument beyond kMaxTextBytes.
Result BoundedText(std::string text);

}  // namespace distill::jinja
