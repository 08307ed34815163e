// Environment variables, read strictly: what is set must parse, and errors name the variable.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

class Environment {
 public:
  // `getenv` is std::getenv but for tests.
  explicit Environment(std::function<const char*(const char*)> getenv) : getenv_(std::move(getenv)) {}

  bool Has(const char* name) const { return getenv_(name) != nullptr; }
  // Nothing when it is not set or empty.
  std::optional<std::string> Text(const char* name) const;
  // InvalidArgument when it is missing, no decimal number, or outside [low, high].
  absl::StatusOr<int64_t> Number(const char* name, int64_t low, int64_t high) const;
  // The same, but `otherwise` when it is not set.
  absl::StatusOr<int64_t> NumberOr(const char* name, int64_t otherwise, int64_t low, int64_t high) const;

 private:
  std::function<const char*(const char*)> getenv_;
};

}  // namespace distill
