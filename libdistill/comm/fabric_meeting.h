// How the ranks' endpoints on the fabric find one another; internal to comm/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/comm/setup.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

// The endpoint of DISTILL_FABRIC_PROVIDER, on the interface over which the ranks met and what goes beside it, at most
// DISTILL_FABRIC_RAILS in all. For this rank alone.
[[nodiscard]] absl::StatusOr<std::unique_ptr<FabricEndpoint>> OpenFabric(const Setup& setup);

// Every rank must call it, also with an error: every rank's address, in their order. FailedPrecondition: the ranks use
// different providers.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ExchangeAddresses(
    Setup& setup, const absl::StatusOr<std::unique_ptr<FabricEndpoint>>& endpoint);

}  // namespace distill
