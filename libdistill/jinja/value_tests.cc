// `value is test`.
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

using TestArguments = const std::vector<Value>&;

bool IsMapping(const Value& value) { return value.dict() != nullptr && value.dict()->kind == Dict::Kind::kDict; }
bool IsSequence(const Value& value) {
  return value.IsString() || value.IsUndefined() || IsMapping(value) ||
         (value.list() != nullptr && !value.list()->IsView());
}

// Python's `is`: lists and dicts are compared by where they lie, and what has no state by value.
bool IsSame(const Value& a, const Value& b) {
  if (a.IsBool() != b.IsBool() || a.IsInteger() != b.IsInteger()) return false;
  if (a.list() != nullptr || b.list() != nullptr) return a.list() == b.list();
  if (a.dict() != nullptr || b.dict() != nullptr) return a.dict() == b.dict();
  return Equal(a, b);
}

absl::StatusOr<bool> Divides(const Value& value, const Value& by, int64_t remainder) {
  if (!value.IsInteger() || !by.IsInteger()) return Error("the test needs integers");
  if (by.integer() == 0) return Error("division by zero");
  return by.integer() == -1 ? remainder == 0 : (value.integer() % by.integer() != 0) == (remainder != 0);
}

template <bool less, bool equal>
absl::StatusOr<bool> Ordered(const Value& value, TestArguments arguments) {
  DISTILL_ASSIGN_OR_RETURN(const int order, Compare(value, arguments[0]));
  return (order == 0 && equal) || (order != 0 && (order < 0) == less);
}

bool IsEqual(const Value& value, TestArguments arguments) { return Equal(value, arguments[0]); }
bool IsUnequal(const Value& value, TestArguments arguments) { return !Equal(value, arguments[0]); }

}  // namespace

const std::map<absl::string_view, Test>& Tests() {
  static const std::map<absl::string_view, Test> kTests = {
      {"defined", {0, [](const Value& v, TestArguments) { return !v.IsUndefined(); }}},
      {"undefined", {0, [](const Value& v, TestArguments) { return v.IsUndefined(); }}},
      {"none", {0, [](const Value& v, TestArguments) { return v.IsNone(); }}},
      {"boolean", {0, [](const Value& v, TestArguments) { return v.IsBool(); }}},
      {"true", {0, [](const Value& v, TestArguments) { return v.IsBool() && IsTrue(v); }}},
      {"false", {0, [](const Value& v, TestArguments) { return v.IsBool() && !IsTrue(v); }}},
      {"string", {0, [](const Value& v, TestArguments) { return v.IsString(); }}},
      {"number", {0, [](const Value& v, TestArguments) { return v.IsNumber(); }}},
      {"integer", {0, [](const Value& v, TestArguments) { return v.IsInteger() && !v.IsBool(); }}},
      {"float", {0, [](const Value& v, TestArguments) { return v.IsNumber() && !v.IsInteger(); }}},
      {"mapping", {0, [](const Value& v, TestArguments) { return IsMapping(v); }}},
      {"sequence", {0, [](const Value& v, TestArguments) { return IsSequence(v); }}},
      {"iterable", {0, [](const Value& v, TestArguments) { return IsIterable(v); }}},
      {"lower", {0, [](const Value& v, TestArguments) { return IsInCase(ToText(v), LetterCase::kLower); }}},
      {"upper", {0, [](const Value& v, TestArguments) { return IsInCase(ToText(v), LetterCase::kUpper); }}},
      {"escaped", {0, [](const Value&, TestArguments) { return false; }}},
      {"filter", {0, [](const Value& v, TestArguments) { return v.IsString() && Filters().count(*v.text()) > 0; }}},
      {"test", {0, [](const Value& v, TestArguments) { return v.IsString() && Tests().count(*v.text()) > 0; }}},
      {"callable", {0, [](const Value& v, TestArguments) { return v.function() != nullptr || v.object() != nullptr; }}},
      {"odd", {0, [](const Value& v, TestArguments) { return Divides(v, 2, 1); }}},
      {"even", {0, [](const Value& v, TestArguments) { return Divides(v, 2, 0); }}},
      {"divisibleby", {1, [](const Value& v, TestArguments a) { return Divides(v, a[0], 0); }}},
      {"in", {1, [](const Value& v, TestArguments a) { return Contains(a[0], v); }}},
      {"eq", {1, IsEqual}},
      {"equalto", {1, IsEqual}},
      {"sameas", {1, [](const Value& v, TestArguments a) { return IsSame(v, a[0]); }}},
      {"ne", {1, IsUnequal}},
      {"lt", {1, Ordered<true, false>}},
      {"lessthan", {1, Ordered<true, false>}},
      {"le", {1, Ordered<true, true>}},
      {"gt", {1, Ordered<false, false>}},
      {"greaterthan", {1, Ordered<false, false>}},
      {"ge", {1, Ordered<false, true>}},
      {"==", {1, IsEqual}},
      {"!=", {1, IsUnequal}},
      {"<", {1, Ordered<true, false>}},
      {"<=", {1, Ordered<true, true>}},
      {">", {1, Ordered<false, false>}},
      {">=", {1, Ordered<false, true>}},
  };
  return kTests;
}

absl::StatusOr<bool> ApplyTest(const std::string& name, const Value& input, const std::vector<Value>& arguments,
                               Budget& budget) {
  const auto found = Tests().find(name);
  if (found == Tests().end()) return Error(absl::StrCat("the test '", Shorten(name), "' is not supported"));
  if (arguments.size() != found->second.arguments) {
    return Error(absl::StrCat("the test '", name, "' takes ", found->second.arguments, " argument(s)"));
  }
  if (name == "in") DISTILL_RETURN_IF_ERROR(ChargeContains(arguments[0], input, budget));
  if (name != "in" && !arguments.empty()) DISTILL_RETURN_IF_ERROR(ChargeComparison(input, arguments[0], budget));
  return found->second.holds(input, arguments);
}

}  // namespace distill::jinja
