#include "libdistill/world/environment.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace distill {

std::optional<std::string> Environment::Text(const char* name) const {
  const char* value = getenv_(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

absl::StatusOr<int64_t> Environment::Number(const char* name, int64_t low, int64_t high) const {
  const char* value = getenv_(name);
  if (value == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the environment variable ", name,
                                                   " is missing: the launcher that set the others must set it too"));
  }
  int64_t number = 0;
  if (!absl::SimpleAtoi(value, &number)) {
    return absl::InvalidArgumentError(absl::StrCat("the environment variable ", name, " is '", value, "', no number"));
  }
  if (number < low || number > high) {
    return absl::InvalidArgumentError(absl::StrCat("the environment variable ", name, " is ", number,
                                                   ", out of range: ", low, " to ", high, " is possible here"));
  }
  return number;
}

absl::StatusOr<int64_t> Environment::NumberOr(const char* name, int64_t otherwise, int64_t low, int64_t high) const {
  if (!Has(name)) return otherwise;
  return Number(name, low, high);
}

}  // namespace distill
