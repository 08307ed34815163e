// One attempt to connect, with a lookup of its own for the name.
#pragma once

#include "libdistill/world/socket.h"

namespace distill::testing {

inline absl::StatusOr<Socket> Connect(const HostPort& place, const Deadline& deadline) {
  NameLookup names;
  return distill::Connect(place, deadline, names);
}

}  // namespace distill::testing
