// How much memory this process can still be given.
//
//   const AvailableMemory available = ReadAvailableMemory("");
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distill {

struct AvailableMemory {
  uint64_t bytes = 0;
  std::string limited_by;  // "this host", or "the memory limit of ", with the control group's folder
};

// The least of what the host has and what is left of the limits of this process' control groups, both with what the
// kernel would drop of its copies of files. More would not fail, but summon the kernel's out-of-memory killer. `root`
// is a folder in front of /proc and /sys, for tests. Never fails: what cannot be read does not limit.
AvailableMemory ReadAvailableMemory(const std::string& root);

// One of the limits that this is the least of.
struct MemoryLimit {
  std::string name;  // as AvailableMemory::limited_by
  // Equal for two processes that share the limit, and for no others: it has the kernel's boot id. So containers of one
  // host share what the host has, and a group that each of them sees under another path.
  std::string id;
  uint64_t left_bytes = 0;
};
std::vector<MemoryLimit> ReadMemoryLimits(const std::string& root);

}  // namespace distill
