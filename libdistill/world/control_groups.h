// The kernel's control groups, which limit what a container or a job may use of a host: the folders that hold the
// limits of this process. Internal to the library.
//
//   for (const std::string& folder : GroupFolders("", "memory")) limit = std::min(limit, LimitIn(folder));
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace distill {

// The control groups of this process, innermost first, up to the container's own: the folders of one controller, in
// version 1 or 2. `root` is a folder in front of /proc and /sys, for tests. Never fails: the folders may not exist.
std::vector<std::string> GroupFolders(const std::string& root, absl::string_view controller);

// The first line of a file; empty when there is none.
std::string FirstLine(const std::string& path);

}  // namespace distill
