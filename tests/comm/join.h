// How the ranks of a test on this host join; over the fabric by way of loopback.
#pragma once

#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/comm/create.h"
#include "libdistill/comm/setup.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/efa_like_ranks.h"

namespace distill::testing {

// What joins the ranks of one host, in every build.
inline constexpr BackendPreference kBackends[] = {BackendPreference::kShm, BackendPreference::kFabric};

// Those to try one after another: the ranks that have the fabric like efa are there for the fabric.
inline std::vector<BackendPreference> Backends() {
  if (EfaLikeRails() != nullptr) return {BackendPreference::kFabric};
  return {std::begin(kBackends), std::end(kBackends)};
}

inline absl::StatusOr<std::unique_ptr<Communicator>> Join(const World& world, const CommunicatorOptions& options) {
  setenv("FI_TCP_IFACE", "lo", 1);
  return CreateCommunicator(world, options);
}

// For a test of a call's time-out, over kShm, kFabric or kHierarchical, with the ranks on `hosts`: joining has a
// minute, as ranks take their time to start on a loaded machine.
inline absl::StatusOr<std::unique_ptr<Communicator>> JoinForCallsOf(absl::Duration timeout, World world,
                                                                    BackendPreference backend,
                                                                    const std::vector<std::string>& hosts,
                                                                    const std::string& memory_root = "") {
  setenv("FI_TCP_IFACE", "lo", 1);
  world.host = world.host_id = hosts[static_cast<size_t>(world.rank)];
  CommunicatorOptions options;
  options.timeout = timeout;
  const Deadline deadline = Deadline::After(absl::Seconds(60));
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Rendezvous> rendezvous, CreateRendezvous(world, deadline));
  rendezvous->StartHeartbeat(options.heartbeat_timeout);
  Setup setup = {.world = world, .options = options, .deadline = deadline, .rendezvous = rendezvous, .hosts = hosts};
  setup.host_ids = hosts;
  setup.memory_root = memory_root;
  setup.one_host = backend == BackendPreference::kShm;
  DISTILL_ASSIGN_OR_RETURN(auto comm, backend == BackendPreference::kShm ? CreateShmCommunicator(std::move(setup))
                                      : backend == BackendPreference::kFabric
                                          ? CreateFabricCommunicator(std::move(setup))
                                          : CreateHierarchicalCommunicator(std::move(setup), false));
  DISTILL_RETURN_IF_ERROR(comm->Attach(rendezvous, options.timeout, options.abort_grace));
  return comm;
}

}  // namespace distill::testing
