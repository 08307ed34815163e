// The rails over which a rank's communicators of one job reach the other hosts: the whole's, those of the parts that
// Split makes, and, in two levels, a lane's and those between all ranks. A rail is an endpoint of libfabric's, for
// which efa pins some 70 MB, so there they share one set for host memory and one for the GPU's. Elsewhere each
// communicator has its own: an endpoint of tcp's is small, and two communicators' bytes over one connection would wait
// for one another. DISTILL_FABRIC_SHARED=1 shares over every provider, =0 over none. Internal to comm/.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

class FabricPool {
 public:
  // An endpoint over the rails for this kind of memory, `max_rails` of them at most (0: all); null where there are none
  // to share. Any thread.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<FabricEndpoint>> Open(bool device_memory, int max_rails);
  // Whoever comes once this endpoint is connected shares its rails, where that is wanted, while any endpoint has them.
  // InvalidArgument: DISTILL_FABRIC_SHARED is neither 0 nor 1.
  [[nodiscard]] absl::Status Share(const FabricEndpoint& endpoint, bool device_memory);

 private:
  std::mutex mutex_;
  std::weak_ptr<SharedRails> rails_[2];  // for host memory, and for a device's
};

}  // namespace distill
