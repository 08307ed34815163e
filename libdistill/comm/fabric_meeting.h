// How the ranks' endpoints on the fabric find one another; internal to comm/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/comm/default_costs.h"
#include "libdistill/comm/setup.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

// Whether finished blocks are written into the next rank's memory (fabric_writes.h): those that are long enough for
// that, or of any length.
enum class FabricWriting { kNone, kLong, kAll };

// What the ranks tell one another.
struct FabricMeeting {
  std::vector<std::string> addresses;  // of the endpoints, in the ranks' order
  FabricWriting writing = FabricWriting::kNone;
  DefaultCosts costs;  // of their provider, by the rank that has the least part of its host's cards
};

// A pure function of what the ranks can and prefer (DISTILL_FABRIC_WRITES: "0", "1" or empty), in their order: they
// write where that is good for all of them, under a preference of 1 also where it is poor, and blocks of any length.
// FailedPrecondition: they prefer different things. InvalidArgument: some cannot do what is asked for, or a preference
// is something else.
[[nodiscard]] absl::StatusOr<FabricWriting> ChooseWriting(const std::vector<FabricWriteAccess>& access,
                                                          const std::vector<std::string>& preferences,
                                                          const std::vector<std::string>& names);

// The endpoint of DISTILL_FABRIC_PROVIDER, on the interface over which the ranks met and what goes beside it, at most
// DISTILL_FABRIC_RAILS in all, and `most_rails` where that is not 0; or one over the rails that this rank's
// communicators share (fabric_pool.h). For this rank alone.
[[nodiscard]] absl::StatusOr<std::unique_ptr<FabricEndpoint>> OpenFabric(const Setup& setup, int most_rails = 0);

// Every rank must call it, also with an error. FailedPrecondition: the ranks use different providers. The errors of
// ChooseWriting.
[[nodiscard]] absl::StatusOr<FabricMeeting> MeetOnFabric(
    Setup& setup, const absl::StatusOr<std::unique_ptr<FabricEndpoint>>& endpoint);

}  // namespace distill
