#include "libdistill/world/host_id.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace distill {

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

std::string HostId() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  struct stat network = {};
  const uint64_t inode = stat("/proc/self/ns/net", &network) == 0 ? network.st_ino : 0;
  return absl::StrCat(HostName(), "/", boot_id, "/", inode);
}

}  // namespace distill
