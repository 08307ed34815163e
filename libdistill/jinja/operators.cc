// The binary operators of expressions.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

double FloorModulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

Result IntegerPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (base == 0 || base == 1 || base == -1)
    return Value(exponent == 0 || base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base == 0 ? 0 : -1);
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) return Error("a number is too large");
  }
  return Value(result);
}

Result IntegerOperator(const std::string& name, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (name == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (name == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (name == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (name == "**") {
    return b < 0 ? Result(Value(std::pow(static_cast<double>(a), static_cast<double>(b)))) : IntegerPower(a, b);
  } else if (b == 0) {
    return Error("division by zero");
  } else if (name == "/") {
    return Value(static_cast<double>(a) / static_cast<double>(b));
  } else if (b == -1) {
    if (name == "//") overflow = __builtin_sub_overflow(int64_t{0}, a, &result);
  } else {
    result = name == "//" ? FloorDivide(a, b) : a - FloorDivide(a, b) * b;
  }
  return overflow ? Result(Error("a number is too large")) : Value(result);
}

Result FloatOperator(const std::string& name, double a, double b) {
  if (name == "+") return Value(a + b);
  if (name == "-") return Value(a - b);
  if (name == "*") return Value(a * b);
  if (name == "**") return Value(std::pow(a, b));
  if (b == 0) return Error("division by zero");
  if (name == "/") return Value(a / b);
  return name == "//" ? Value((a - FloorModulo(a, b)) / b) : Value(FloorModulo(a, b));
}

Result Repeat(const Value& sequence, int64_t count) {
  count = std::max<int64_t>(count, 0);
  if (const std::string* text = sequence.text()) {
    if (!text->empty() && count > static_cast<int64_t>(kMaxTextBytes / text->size())) {
      return Error("a text grows beyond 64 MiB");
    }
    std::string out;
    for (int64_t i = 0; i < (text->empty() ? 0 : count); ++i) out += *text;
    return Value(std::move(out));
  }
  const std::vector<Value>& items = sequence.list()->items;
  if (!items.empty() && count > static_cast<int64_t>(kMaxItems / items.size())) {
    return Error("a list grows beyond a million items");
  }
  std::vector<Value> out;
  for (int64_t i = 0; i < (items.empty() ? 0 : count); ++i) out.insert(out.end(), items.begin(), items.end());
  return MakeList(std::move(out), sequence.list()->IsTuple() ? List::Kind::kTuple : List::Kind::kList);
}

Result Combine(const std::string& name, const Value& left, const Value& right) {
  if (name == "~") return BoundedText(ToText(left) + ToText(right));
  for (const Value* value : {&left, &right}) {
    if (value->IsUndefined()) return Error(value->reason());
  }
  if (left.IsInteger() && right.IsInteger()) return IntegerOperator(name, left.integer(), right.integer());
  if (left.IsNumber() && right.IsNumber()) return FloatOperator(name, left.number(), right.number());
  if (name == "+" && left.IsString() && right.IsString()) return BoundedText(*left.text() + *right.text());
  if (name == "%" && left.IsString()) return FormatPercent(*left.text(), right);
  const auto joins = [](const Value& value) {
    return value.list() != nullptr && (value.list()->IsTuple() || value.list()->kind == List::Kind::kList);
  };
  if (name == "+" && joins(left) && joins(right) && left.list()->IsTuple() == right.list()->IsTuple()) {
    std::vector<Value> items = left.list()->items;
    items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
    return MakeList(std::move(items), left.list()->IsTuple() ? List::Kind::kTuple : List::Kind::kList);
  }
  const auto repeats = [&joins](const Value& value) { return value.IsString() || joins(value); };
  if (name == "*" && repeats(left) && right.IsInteger()) return Repeat(left, right.integer());
  if (name == "*" && repeats(right) && left.IsInteger()) return Repeat(right, left.integer());
  return Error(absl::StrCat("'", name, "' is not supported between ", TypeName(left), " and ", TypeName(right)));
}

}  // namespace

Result ApplyOperator(const std::string& name, const Value& left, const Value& right, Budget& budget) {
  DISTILL_ASSIGN_OR_RETURN(Value result, Combine(name, left, right));
  DISTILL_RETURN_IF_ERROR(budget.BuildShallow(result));
  return result;
}

}  // namespace distill::jinja
