// How the ranks of a test of sharded models meet: one thread each, on the CPU, and over a fabric loopback.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>

#include <ATen/Parallel.h>

#include "absl/status/statusor.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/run/run.h"

namespace distill::testing {

inline absl::StatusOr<std::unique_ptr<RunContext>> Meet(const World& world, const CommunicatorOptions& options) {
  at::set_num_threads(1);
  setenv("FI_TCP_IFACE", "lo", 1);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, options));
  return std::make_unique<RunContext>(world, std::move(comm), c10::Device(c10::kCPU));
}

}  // namespace distill::testing
