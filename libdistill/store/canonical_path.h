// Whether two paths are of the same place.
#pragma once

#include <string>

namespace distill {

// Absolute, without "..", links followed as far as the path exists. An empty path is the working folder; one that
// cannot be followed stays as it is.
std::string CanonicalPath(const std::string& path);

// Whether `path` is `folder` or lies in it, however deep.
bool LiesIn(const std::string& folder, const std::string& path);

}  // namespace distill
