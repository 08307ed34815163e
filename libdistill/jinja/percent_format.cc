// Python's `format % values`, but for bytes and the conversions of very large numbers.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

// "%(name)-08.3f"
struct Conversion {
  bool left = false, plus = false, space = false, zero = false, alternate = false;
  int64_t width = 0, precision = -1;
  char kind = 's';
};

class PercentFormatter {
 public:
  PercentFormatter(const std::string& format, const Value& values) : format_(format), values_(values) {
    if (values.list() != nullptr && values.list()->IsTuple()) {
      items_ = values.list()->items;
    } else {
      items_ = {values};
    }
  }

  Result Run() {
    while (i_ < format_.size()) {
      if (format_[i_] != '%') {
        out_ += format_[i_++];
        continue;
      }
      ++i_;
      DISTILL_RETURN_IF_ERROR(FormatOne());
      if (out_.size() > kMaxTextBytes) break;
    }
    const bool is_mapping = values_.dict() != nullptr || (values_.list() != nullptr && !values_.list()->IsTuple());
    if (next_ < items_.size() && !is_mapping && !named_) return Error("'%': not all values are used by the format");
    return BoundedText(std::move(out_));
  }

 private:
  absl::StatusOr<Value> NextValue() {
    if (next_ >= items_.size()) return Error("'%': there are fewer values than the format uses");
    return items_[next_++];
  }

  absl::StatusOr<int64_t> ReadNumber() {
    int64_t number = 0;
    if (i_ < format_.size() && format_[i_] == '*') {
      ++i_;
      DISTILL_ASSIGN_OR_RETURN(const Value value, NextValue());
      if (!value.IsInteger()) return Error("'%': '*' needs an integer");
      number = value.integer();
    }
    for (; i_ < format_.size() && absl::ascii_isdigit(static_cast<unsigned char>(format_[i_])); ++i_) {
      number = std::min<int64_t>(number * 10 + (format_[i_] - '0'), kMaxTextBytes + 1);
    }
    if (std::abs(number) > static_cast<int64_t>(kMaxTextBytes)) return Error("a text grows beyond 64 MiB");
    return number;
  }

  absl::Status FormatOne() {
    Conversion conversion;
    Value value;
    bool has_value = false;
    if (i_ < format_.size() && format_[i_] == '(') {
      const size_t close = format_.find(')', i_);
      if (close == std::string::npos) return Error("'%': a name is not closed by ')'");
      if (values_.dict() == nullptr) return Error("'%': a format with names needs a dict");
      const Value* found = values_.dict()->Find(Value(format_.substr(i_ + 1, close - i_ - 1)));
      if (found == nullptr) return Error("'%': the dict lacks a name of the format");
      value = *found;
      has_value = named_ = true;
      i_ = close + 1;
    }
    for (; i_ < format_.size() && absl::StrContains("-+ 0#", format_.substr(i_, 1)); ++i_) {
      (format_[i_] == '-'   ? conversion.left
       : format_[i_] == '+' ? conversion.plus
       : format_[i_] == ' ' ? conversion.space
       : format_[i_] == '0' ? conversion.zero
                            : conversion.alternate) = true;
    }
    DISTILL_ASSIGN_OR_RETURN(conversion.width, ReadNumber());
    if (conversion.width < 0) conversion.left = true;
    conversion.width = std::abs(conversion.width);
    if (i_ < format_.size() && format_[i_] == '.') {
      ++i_;
      DISTILL_ASSIGN_OR_RETURN(const int64_t precision, ReadNumber());
      conversion.precision = std::max<int64_t>(precision, 0);
    }
    while (i_ < format_.size() && absl::StrContains("hlL", format_.substr(i_, 1))) ++i_;
    if (i_ >= format_.size()) return Error("'%': the format ends within a conversion");
    conversion.kind = format_[i_++];
    if (conversion.kind == '%') {
      out_ += '%';
      return absl::OkStatus();
    }
    if (!has_value) {
      DISTILL_ASSIGN_OR_RETURN(value, NextValue());
    }
    return Convert(conversion, value);
  }

  absl::Status Convert(const Conversion& conversion, const Value& value) {
    switch (conversion.kind) {
      case 's':
      case 'r':
        return Pad(conversion, "", Cut(conversion, conversion.kind == 's' ? ToText(value) : ToRepr(value)));
      case 'c':
        if (value.IsString() && CountCodePoints(*value.text()) == 1) return Pad(conversion, "", *value.text());
        if (!value.IsInteger() || value.integer() < 0 || value.integer() > 0x10FFFF ||
            (value.integer() >= 0xD800 && value.integer() < 0xE000)) {
          return Error("'%c' needs a character");
        }
        {
          std::string text;
          AppendUtf8(static_cast<char32_t>(value.integer()), &text);
          return Pad(conversion, "", text);
        }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return ConvertInteger(conversion, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return ConvertFloat(conversion, value);
      default:
        return Error("'%': the format has an unknown conversion");
    }
  }

  static std::string Cut(const Conversion& conversion, const std::string& text) {
    if (conversion.precision < 0) return text;
    size_t end = 0;
    for (int64_t n = 0; n < conversion.precision && end < text.size(); ++n) NextCodePoint(text, &end);
    return text.substr(0, end);
  }

  absl::Status ConvertInteger(const Conversion& conversion, const Value& value) {
    const bool decimal = absl::StrContains("diu", std::string(1, conversion.kind));
    if (value.IsUndefined()) return Error(value.reason());
    if (!value.IsNumber() || (!decimal && !value.IsInteger()) || std::abs(value.number()) >= 9e18) {
      return Error(absl::StrCat("'%", std::string(1, conversion.kind), "' needs an integer, not ", TypeName(value)));
    }
    const int64_t number = value.integer();
    const uint64_t size = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    std::string digits = conversion.kind == 'x'   ? absl::StrFormat("%x", size)
                         : conversion.kind == 'X' ? absl::StrFormat("%X", size)
                         : conversion.kind == 'o' ? absl::StrFormat("%o", size)
                                                  : absl::StrCat(size);
    const int64_t zeros = conversion.precision - static_cast<int64_t>(digits.size());
    if (zeros > 0) digits.insert(0, static_cast<size_t>(zeros), '0');
    const std::string prefix =
        !conversion.alternate || decimal ? "" : absl::StrCat("0", std::string(1, conversion.kind));
    return Pad(conversion, SignOf(conversion, number < 0) + prefix, digits);
  }

  absl::Status ConvertFloat(const Conversion& conversion, const Value& value) {
    if (value.IsUndefined()) return Error(value.reason());
    if (!value.IsNumber())
      return Error(absl::StrCat("'%", std::string(1, conversion.kind), "' needs a number, not ", TypeName(value)));
    const int precision =
        static_cast<int>(conversion.precision < 0 ? 6 : std::min<int64_t>(conversion.precision, 1000));
    const std::string format =
        absl::StrCat("%", conversion.alternate ? "#" : "", ".*", std::string(1, conversion.kind));
    char buffer[1500];
    const double number = value.number();
    const int size = std::snprintf(buffer, sizeof(buffer), format.c_str(), precision, std::abs(number));
    return Pad(conversion, SignOf(conversion, std::signbit(number) && !std::isnan(number)),
               std::string(buffer, std::min<size_t>(size, sizeof(buffer) - 1)));
  }

  static std::string SignOf(const Conversion& conversion, bool negative) {
    return negative ? "-" : conversion.plus ? "+" : conversion.space ? " " : "";
  }

  absl::Status Pad(const Conversion& conversion, const std::string& sign, const std::string& text) {
    const int64_t missing = conversion.width - static_cast<int64_t>(CountCodePoints(sign) + CountCodePoints(text));
    const std::string fill(static_cast<size_t>(std::max<int64_t>(missing, 0)), ' ');
    const bool zero = conversion.zero && !conversion.left && !absl::StrContains("src", std::string(1, conversion.kind));
    if (zero) {
      absl::StrAppend(&out_, sign, std::string(fill.size(), '0'), text);
    } else {
      absl::StrAppend(&out_, conversion.left ? "" : fill, sign, text, conversion.left ? fill : "");
    }
    return absl::OkStatus();
  }

  const std::string& format_;
  const Value& values_;
  std::vector<Value> items_;
  std::string out_;
  size_t i_ = 0, next_ = 0;
  bool named_ = false;
};

}  // namespace

Result FormatPercent(const std::string& format, const Value& values) { return PercentFormatter(format, values).Run(); }

}  // namespace distill::jinja
