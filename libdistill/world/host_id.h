// Which machine this is: two processes share memory exactly when their host ids are equal.
#pragma once

#include <string>

namespace distill {

std::string HostName();

// Host name, boot id (hosts may share a name), network namespace (containers and emulated hosts share a boot) and
// process namespace (containers may share the network, but cannot reach one another's memory).
std::string HostId();

}  // namespace distill
