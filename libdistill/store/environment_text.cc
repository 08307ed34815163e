#include "libdistill/store/environment_text.h"

#include <cstdlib>

#include "absl/strings/ascii.h"

namespace distill {

std::string EnvironmentText(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool EnvironmentFlag(const char* name) {
  const std::string value = absl::AsciiStrToUpper(EnvironmentText(name));
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

}  // namespace distill
