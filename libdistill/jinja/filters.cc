// Filters of numbers and of any value, and `value | filter` by name.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

Result Length(const Value& input, const Given&) {
  if (const std::string* text = input.text()) return Value::MakeCount(CountCodePoints(*text));
  if (const List* list = input.list()) return Value::MakeCount(list->items.size());
  if (input.IsUndefined()) return Value(0);
  if (const Dict* dict = input.dict(); dict != nullptr && dict->kind == Dict::Kind::kDict) {
    return Value::MakeCount(dict->entries.size());
  }
  return Error(absl::StrCat(TypeName(input), " has no length"));
}

Result Default(const Value& input, const Given& given) {
  const bool replaces = input.IsUndefined() || (given[1] != nullptr && IsTrue(*given[1]) && !IsTrue(input));
  if (!replaces) return input;
  return given[0] == nullptr ? Value("") : *given[0];
}

// Python's int(text, base): white space around, a sign, "_" between digits; the prefix of its base, and of any for 0.
std::optional<Value> ParseInteger(absl::string_view text, int64_t base) {
  const std::string stripped = Strip(text, nullptr, true, true);
  text = stripped;
  const bool negative = absl::StartsWith(text, "-");
  if (negative || absl::StartsWith(text, "+")) text.remove_prefix(1);
  const std::string prefix = absl::AsciiStrToLower(text.substr(0, 2));
  const int64_t own = prefix == "0x" ? 16 : prefix == "0o" ? 8 : prefix == "0b" ? 2 : 0;
  bool has_prefix = own != 0 && (base == 0 || base == own);
  if (has_prefix) text.remove_prefix(2);
  if (base == 0) base = own == 0 ? 10 : own;
  std::string digits;
  for (const char c : text) {
    if (c == '_' && (!digits.empty() || has_prefix) && (digits.empty() || digits.back() != '_')) {
      digits.push_back('_');
    } else if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      digits.push_back(c);
    } else {
      return std::nullopt;
    }
  }
  if (digits.empty() || digits.back() == '_') return std::nullopt;
  digits = absl::StrCat(negative ? "-" : "", absl::StrReplaceAll(digits, {{"_", ""}}));
  int64_t number = 0;
  const auto [end, failure] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, static_cast<int>(base));
  if (end != digits.data() + digits.size() || failure == std::errc::invalid_argument) return std::nullopt;
  return failure == std::errc() ? Value(number) : Value();
}

// Python's float(text).
std::optional<double> ParseFloat(absl::string_view text) {
  const std::string stripped = Strip(text, nullptr, true, true);
  std::string plain;
  for (size_t i = 0; i < stripped.size(); ++i) {
    const auto is_digit = [&](size_t k) {
      return k < stripped.size() && absl::ascii_isdigit(static_cast<unsigned char>(stripped[k]));
    };
    if (stripped[i] != '_') {
      plain.push_back(stripped[i]);
    } else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
      return std::nullopt;
    }
  }
  double number = 0;
  const std::string lower = absl::AsciiStrToLower(plain);
  if (absl::StrContains(lower, "x") || absl::StrContains(lower, "(") || !absl::SimpleAtod(plain, &number))
    return std::nullopt;
  return number;
}

constexpr double kMaxInteger = 9223372036854775807.0;

Result ToInteger(const Value& input, const Given& given) {
  const Value otherwise = given[0] == nullptr ? Value(0) : *given[0];
  if (input.IsUndefined()) return Error(input.reason());
  if (input.IsInteger()) return Value(input.integer());
  std::optional<double> number;
  if (const std::string* text = input.text()) {
    const int64_t base = given[1] != nullptr && given[1]->IsInteger() ? given[1]->integer() : 10;
    if (base < 0 || base == 1 || base > 36) return otherwise;
    if (const std::optional<Value> integer = ParseInteger(*text, base)) {
      return integer->IsUndefined() ? Result(Error("int: the number is too large")) : *integer;
    }
    number = ParseFloat(*text);
  } else if (input.IsNumber()) {
    number = input.number();
  }
  if (!number.has_value() || std::isnan(*number) || std::isinf(*number)) return otherwise;
  if (std::abs(*number) >= kMaxInteger) return Error("int: the number is too large");
  return Value(static_cast<int64_t>(*number));
}

Result ToFloat(const Value& input, const Given& given) {
  if (input.IsUndefined()) return Error(input.reason());
  if (input.IsNumber()) return Value(input.number());
  if (input.IsString()) {
    if (const std::optional<double> number = ParseFloat(*input.text())) return Value(*number);
  }
  return given[0] == nullptr ? Value(0.0) : *given[0];
}

// Python rounds halves to even: of integers by tens, of floats by what their decimal digits are.
Result RoundInteger(int64_t number, int64_t zeros) {
  int64_t unit = 1;
  for (; zeros > 0; --zeros) unit *= 10;
  const __int128 wide = number, half = unit / 2;
  __int128 quotient = wide / unit, remainder = wide % unit;
  if (remainder < 0) {
    remainder += unit;
    --quotient;
  }
  if (remainder > half || (remainder == half && quotient % 2 != 0)) ++quotient;
  const __int128 rounded = quotient * unit;
  if (rounded > INT64_MAX || rounded < INT64_MIN) return Error("round: the number is too large");
  return Value(static_cast<int64_t>(rounded));
}

Result RoundFloat(double number, int64_t precision) {
  if (!std::isfinite(number) || precision > 323) return Value(number);
  if (precision < -308) return Value(std::copysign(0.0, number));
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return Value(std::nearbyint(number / unit) * unit);
  }
  char buffer[800];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::fixed, static_cast<int>(precision));
  double rounded = number;
  std::from_chars(buffer, end.ptr, rounded);
  return Value(rounded);
}

Result Abs(const Value& input, const Given&) {
  if (!input.IsNumber()) return Error(absl::StrCat("abs: ", TypeName(input), " is no number"));
  if (!input.IsInteger()) return Value(std::abs(input.number()));
  return Value(std::abs(std::max<int64_t>(input.integer(), -INT64_MAX)));
}

// round(precision, method)
Result Round(const Value& input, const Given& given) {
  if (!input.IsNumber()) return Error(absl::StrCat("round: ", TypeName(input), " is no number"));
  if (given[0] != nullptr && !given[0]->IsInteger()) return Error("round: the precision is no integer");
  const int64_t precision = given[0] == nullptr ? 0 : std::clamp<int64_t>(given[0]->integer(), -400, 400);
  const std::string method = given[1] == nullptr ? "common" : ToText(*given[1]);
  const double number = input.number();
  if (method == "common") {
    if (input.IsInteger() && precision >= 0) return Value(input.integer());
    if (input.IsInteger() && precision < -18) return Value(0);
    if (input.IsInteger()) return RoundInteger(input.integer(), -precision);
    return RoundFloat(number, precision);
  }
  if (method != "ceil" && method != "floor") return Error("round: the method is common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision)), scaled = number * scale;
  if (!std::isfinite(scaled)) return Error("round: the number is too large");
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result Attr(const Value& input, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::string name, TextArgument("attr", given[0]));
  if (input.dict() == nullptr || input.dict()->kind == Dict::Kind::kNamespace || MethodsOf(input).count(name) > 0) {
    return GetAttribute(input, name);
  }
  return Value::MakeUndefined(absl::StrCat(TypeName(input), " has no attribute '", Shorten(name), "'"));
}

}  // namespace

const Builtins& Filters() {
  static const Builtins kFilters = [] {
    Builtins filters = {
        {"abs", {"abs", {}, 0, Abs}},
        {"attr", {"attr", {"name"}, 1, Attr}},
        {"count", {"length", {}, 0, Length}},
        {"d", {"default", {"default_value", "boolean"}, 0, Default}},
        {"default", {"default", {"default_value", "boolean"}, 0, Default}},
        {"float", {"float", {"default"}, 0, ToFloat}},
        {"int", {"int", {"default", "base"}, 0, ToInteger}},
        {"length", {"length", {}, 0, Length}},
        {"round", {"round", {"precision", "method"}, 0, Round}},
        {"tojson", {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, ToJson}},
    };
    for (const Builtins* more : {&TextFilters(), &SequenceFilters(), &OrderingFilters()}) {
      filters.insert(more->begin(), more->end());
    }
    return filters;
  }();
  return kFilters;
}

}  // namespace distill::jinja
