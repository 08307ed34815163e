// Loads libfabric before ranks are forked, which inherit it: it takes 0.3 s of a core to look around when it is first
// asked, most of it in providers that nobody wants (psm measures the CPU's clock, verbs reads all of the kernel's
// symbols).
#pragma once

#include <cstdlib>

#include "libdistill/transport/fabric_open.h"

namespace distill::testing {

// From here on the fabric of this program's ranks is loopback. Where there is no fabric the ranks say so.
inline void LoadFabric() {
  setenv("FI_TCP_IFACE", "lo", 1);
  [[maybe_unused]] static const absl::Status found = FindFabrics({}).status();
}

}  // namespace distill::testing
