// Filters of texts and numbers, and `value | filter` by name.
#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

Result Length(const Value& input, const Given&) {
  if (const std::string* text = input.text()) return Value::MakeCount(CountCodePoints(*text));
  if (const List* list = input.list()) return Value::MakeCount(list->items.size());
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input));
  return Value::MakeCount(items.size());
}

Result Trim(const Value& input, const Given& given) { return Value(Strip(ToText(input), given[0], true, true)); }

// A word starts at the text's start and after "-", whitespace and opening brackets.
std::string TitleText(absl::string_view text) {
  std::string out;
  bool starts = true;
  for (const absl::string_view c : CodePoints(text)) {
    absl::StrAppend(&out, starts ? ToUpper(c) : ToLower(c));
    size_t position = 0;
    starts = IsWhitespace(NextCodePoint(c, &position)) || c == "-" || c == "(" || c == "{" || c == "[" || c == "<";
  }
  return out;
}

Result ToString(const Value& input, const Given&) { return Value(ToText(input)); }

Result Default(const Value& input, const Given& given) {
  const bool replaces = input.IsUndefined() || (given[1] != nullptr && IsTrue(*given[1]) && !IsTrue(input));
  if (!replaces) return input;
  return given[0] == nullptr ? Value("") : *given[0];
}

Result ToInteger(const Value& input, const Given& given) {
  const Value otherwise = given[0] == nullptr ? Value(0) : *given[0];
  if (input.IsUndefined()) return Error(input.reason());
  if (input.IsInteger()) return Value(input.integer());
  double number = 0;
  if (const std::string* text = input.text()) {
    int64_t integer = 0;
    if (absl::SimpleAtoi(*text, &integer)) return Value(integer);
    if (!absl::SimpleAtod(*text, &number)) return otherwise;
  } else if (input.IsNumber()) {
    number = input.number();
  } else {
    return otherwise;
  }
  return std::abs(number) < 9e18 ? Value(static_cast<int64_t>(number)) : otherwise;
}

Result ToFloat(const Value& input, const Given& given) {
  if (input.IsUndefined()) return Error(input.reason());
  double number = 0;
  if (input.IsNumber()) return Value(input.number());
  if (input.IsString() && absl::SimpleAtod(*input.text(), &number)) return Value(number);
  return given[0] == nullptr ? Value(0.0) : *given[0];
}

Result Abs(const Value& input, const Given&) {
  if (!input.IsNumber()) return Error(absl::StrCat("abs: ", TypeName(input), " is no number"));
  if (!input.IsInteger()) return Value(std::abs(input.number()));
  return Value(std::abs(std::max<int64_t>(input.integer(), -INT64_MAX)));
}

Result ReplaceFilter(const Value& input, const Given& given) {
  const bool all = given[2] == nullptr || given[2]->IsNone();
  if (!all && !given[2]->IsInteger()) return Error("replace: the count is no number");
  return Replace(ToText(input), ToText(*given[0]), ToText(*given[1]), all ? -1 : given[2]->integer());
}

// Every line but the first is moved to the right; blank ones only with `blank`.
Result Indent(const Value& input, const Given& given) {
  std::string indent(4, ' ');
  if (given[0] != nullptr && given[0]->IsString()) indent = *given[0]->text();
  if (given[0] != nullptr && given[0]->IsInteger())
    indent.assign(std::clamp<int64_t>(given[0]->integer(), 0, 1024), ' ');
  const bool first = given[1] != nullptr && IsTrue(*given[1]);
  const bool blank = given[2] != nullptr && IsTrue(*given[2]);
  const std::vector<std::string> lines = absl::StrSplit(ToText(input), '\n');
  std::string out;
  for (size_t i = 0; i < lines.size() && out.size() <= kMaxTextBytes; ++i) {
    if (i > 0) out += '\n';
    if (i == 0 ? first : blank || !lines[i].empty()) out += indent;
    out += lines[i];
  }
  return BoundedText(std::move(out));
}

Result Safe(const Value& input, const Given&) { return input; }

}  // namespace

const Builtins& Filters() {
  static const Builtins kFilters = [] {
    Builtins filters = {
        {"abs", {"abs", {}, 0, Abs}},
        {"capitalize", {"filter", {}, 0, Convert<Capitalize>}},
        {"count", {"length", {}, 0, Length}},
        {"d", {"default", {"default_value", "boolean"}, 0, Default}},
        {"default", {"default", {"default_value", "boolean"}, 0, Default}},
        {"float", {"float", {"default"}, 0, ToFloat}},
        {"indent", {"indent", {"width", "first", "blank"}, 0, Indent}},
        {"int", {"int", {"default"}, 0, ToInteger}},
        {"length", {"length", {}, 0, Length}},
        {"lower", {"filter", {}, 0, Convert<ToLower>}},
        {"replace", {"replace", {"old", "new", "count"}, 2, ReplaceFilter}},
        {"safe", {"safe", {"..."}, 0, Safe}},
        {"string", {"string", {}, 0, ToString}},
        {"title", {"filter", {}, 0, Convert<TitleText>}},
        {"tojson", {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, ToJson}},
        {"trim", {"trim", {"chars"}, 0, Trim}},
        {"upper", {"filter", {}, 0, Convert<ToUpper>}},
    };
    filters.insert(SequenceFilters().begin(), SequenceFilters().end());
    return filters;
  }();
  return kFilters;
}

}  // namespace distill::jinja
