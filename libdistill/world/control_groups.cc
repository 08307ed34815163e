#include "libdistill/world/control_groups.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace distill {

// A container sees its own group at the top, though /proc/self/cgroup may still give the host's path to it.
std::vector<std::string> GroupFolders(const std::string& root, absl::string_view controller) {
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string top = root + "/sys/fs/cgroup";
  std::string path;
  for (std::string line; std::getline(groups, line);) {  // "0::/path", or in version 1 "4:cpu,cpuacct:/path"
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    const bool is_v1 = std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
    if (is_v1) absl::StrAppend(&top, "/", std::string(controller));
    if (is_v1 || fields[1].empty()) path = fields[2];
    if (is_v1) break;
  }
  std::vector<std::string> folders;
  for (size_t end = path.size(); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
    folders.push_back(top + path.substr(0, end));
  }
  folders.push_back(top);
  return folders;
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace distill
