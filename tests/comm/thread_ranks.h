// Ranks as threads of this process, over shared memory that is mapped once: what the thread sanitizer can look into.
//
//   CHECK(OverThreads(3, [](Communicator& comm) -> absl::Status { ... }) == "");
//
// They meet over TCP like processes do, and each has its own communicator, rendezvous and watchdog.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"

namespace distill::testing {

// One line for each rank whose body did not return OK; "" when all did.
std::string OverThreads(int ranks, const std::function<absl::Status(Communicator&)>& body);

}  // namespace distill::testing
