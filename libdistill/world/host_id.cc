#include "libdistill/world/host_id.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace distill {
namespace {

uint64_t NamespaceInode(const char* kind) {
  struct stat about = {};
  return stat(absl::StrCat("/proc/self/ns/", kind).c_str(), &about) == 0 ? about.st_ino : 0;
}

}  // namespace

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

std::string HostId() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  return absl::StrCat(HostName(), "/", boot_id, "/", NamespaceInode("net"), "/", NamespaceInode("pid"));
}

}  // namespace distill
