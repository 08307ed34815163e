// How many messages this process hands to libfabric, over all of its endpoints: its functions have ours before them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace distill {

struct FabricMessages {
  int64_t messages = 0;
  int64_t bytes = 0;
};

// From now on; before the first endpoint is opened, once. Loads libfabric: Unavailable where there is none.
[[nodiscard]] absl::Status CountFabricMessages();

// So far; any thread.
FabricMessages SentOverFabric();

}  // namespace distill
