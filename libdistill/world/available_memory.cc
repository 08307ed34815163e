#include "libdistill/world/available_memory.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/world/control_groups.h"
#include "libdistill/world/host_id.h"

namespace distill {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// The sum of the numbers behind these names, in a file with a name and a number on each line; nothing if it has none.
std::optional<uint64_t> SumOf(const std::string& path, const std::vector<std::string>& names) {
  std::ifstream file(path);
  std::string name;
  std::string rest;
  uint64_t number = 0;
  std::optional<uint64_t> sum;
  for (; file >> name >> number; std::getline(file, rest)) {
    if (std::find(names.begin(), names.end(), name) != names.end()) sum = sum.value_or(0) + number;
  }
  return sum;
}

// What is left of the limit of one group: version 2 says "max" where there is none, version 1 a number near 2^63.
std::optional<uint64_t> LeftIn(const std::string& folder) {
  struct Names {
    const char* limit;
    const char* used;
    std::vector<std::string> files;  // of the group and those below it
  };
  static const auto* const versions = new std::vector<Names>{
      {"/memory.max", "/memory.current", {"active_file", "inactive_file"}},
      {"/memory.limit_in_bytes", "/memory.usage_in_bytes", {"total_active_file", "total_inactive_file"}}};
  for (const Names& names : *versions) {
    uint64_t limit = 0;
    uint64_t used = 0;
    if (!absl::SimpleAtoi(FirstLine(folder + names.limit), &limit)) continue;
    if (!absl::SimpleAtoi(FirstLine(folder + names.used), &used)) continue;
    const uint64_t files = SumOf(folder + "/memory.stat", names.files).value_or(0);
    return limit - std::min(limit, used - std::min(used, files));
  }
  return std::nullopt;
}

// Of the kernel that gives out the memory; where it does not say so, its name.
std::string BootId(const std::string& root) {
  const std::string id = FirstLine(root + "/proc/sys/kernel/random/boot_id");
  return id.empty() ? HostName() : id;
}

// The kernel numbers groups alike for all who see them.
std::string IdOf(const std::string& folder) {
  struct stat about = {};
  if (stat(folder.c_str(), &about) != 0) return folder;
  return absl::StrCat("group ", about.st_dev, ":", about.st_ino);
}

}  // namespace

std::vector<MemoryLimit> ReadMemoryLimits(const std::string& root) {
  std::vector<MemoryLimit> limits;
  const std::string boot_id = BootId(root);
  if (const std::optional<uint64_t> kibibytes = SumOf(root + "/proc/meminfo", {"MemAvailable:"})) {
    limits.push_back({"this host", absl::StrCat(boot_id, " host"), *kibibytes << 10});
  }
  for (const std::string& folder : GroupFolders(root, "memory")) {
    const std::optional<uint64_t> left = LeftIn(folder);
    if (!left) continue;
    limits.push_back({absl::StrCat("the memory limit of ", folder), absl::StrCat(boot_id, " ", IdOf(folder)), *left});
  }
  return limits;
}

AvailableMemory ReadAvailableMemory(const std::string& root) {
  AvailableMemory available = {kUnlimited, "this host"};
  for (const MemoryLimit& limit : ReadMemoryLimits(root)) {
    if (limit.left_bytes < available.bytes) available = {limit.left_bytes, limit.name};
  }
  return available;
}

}  // namespace distill
