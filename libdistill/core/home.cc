#include "libdistill/core/home.h"

#include <cstdlib>

#include "absl/strings/match.h"

namespace distill {

std::string ExpandHome(const std::string& path) {
  const char* home = std::getenv("HOME");
  const bool is_at_home = path == "~" || absl::StartsWith(path, "~/");
  return is_at_home && home != nullptr && *home != '\0' ? home + path.substr(1) : path;
}

}  // namespace distill
