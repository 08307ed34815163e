#include "libdistill/store/canonical_path.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace distill {

std::string CanonicalPath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path.empty() ? "." : path, error);
  if (error) return path;
  const std::filesystem::path found = std::filesystem::weakly_canonical(absolute, error);
  if (error) return path;
  return (found.has_filename() || !found.has_relative_path() ? found : found.parent_path()).string();
}

bool LiesIn(const std::string& folder, const std::string& path) {
  const std::string outer = CanonicalPath(folder), inner = CanonicalPath(path);
  return inner == outer || absl::StartsWith(inner, absl::StrCat(absl::StripSuffix(outer, "/"), "/"));
}

}  // namespace distill
