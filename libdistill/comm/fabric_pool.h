// Which of a rank's communicators of one job share their rails (transport/shared_rails.h). A rail is an endpoint of
// libfabric's, for which efa pins some 70 MB. So over efa the job's communicator and the parts that Split makes share
// one set of rails for host memory, and one for the GPU's; in two levels a lane and the calls between all ranks do,
// too. Over other providers each communicator has rails of its own: an endpoint of tcp's is small, and bytes of two
// communicators over one connection would wait for one another.
//
// DISTILL_FABRIC_SHARED=1 shares over every provider, =0 over none. Internal to comm/.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

// Of both functions, InvalidArgument: DISTILL_FABRIC_SHARED is neither 0 nor 1.
class FabricPool {
 public:
  // An endpoint over the rails for this kind of memory, `max_rails` of them at most (0: all); null where there are none
  // to share. Any thread.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<FabricEndpoint>> Open(bool device_memory, int max_rails);
  // Lets later endpoints share this one's rails, where that is wanted: once it is connected, and while any endpoint has
  // them.
  [[nodiscard]] absl::Status Share(const FabricEndpoint& endpoint, bool device_memory);

 private:
  std::mutex mutex_;
  std::weak_ptr<SharedRails> rails_[2];  // for host memory, and for a device's
};

}  // namespace distill
