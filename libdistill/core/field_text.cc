#include "libdistill/core/field_text.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace distill {

std::string NumberText(double value) {
  for (int digits = 6; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double back = 0;
    if (absl::SimpleAtod(text, &back) && back == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

bool ParseField(const std::string& text, std::string& value) {
  value = text;
  return true;
}

bool ParseField(const std::string& text, bool& value) {
  const std::string lower = absl::AsciiStrToLower(text);
  value = lower == "true";
  return value || lower == "false";
}

bool ParseField(const std::string& text, double& value) {
  return absl::SimpleAtod(text, &value) && std::isfinite(value);
}

bool ParseField(const std::string& text, absl::Duration& value) {
  double seconds = 0;
  if (!ParseField(text, seconds)) return false;
  value = absl::Seconds(seconds);
  return true;
}

}  // namespace distill
