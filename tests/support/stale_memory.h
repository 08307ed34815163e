// libfabric's provider shm names its memory after the process. A rank that was killed leaves its memory behind, and a
// later process of the same number would find the name taken.
#pragma once

#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace distill::testing {

inline void RemoveWhatItsNumberLeft() {
  for (int i = 0; i < 8; ++i) unlink(absl::StrCat("/dev/shm/", getpid(), ":", getuid(), ":", i).c_str());
}

}  // namespace distill::testing
