#include "libdistill/plan/report_numbers.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace distill {

std::string WithCommas(int64_t number) {
  const std::string digits = absl::StrCat(std::abs(number));
  std::string text = number < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

std::string ThreeDigits(double number) {
  return std::abs(number) >= 99.95 ? absl::StrFormat("%.0f", number) : absl::StrFormat("%.3g", number);
}

std::string Cents(double dollars) {
  const int64_t cents = std::llround(100 * dollars);
  return absl::StrFormat("%s.%02d", WithCommas(cents / 100), cents % 100);
}

double GiB(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

}  // namespace distill
