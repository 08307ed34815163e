// One direction of a call's messages over the fabric: they are started and finished in order. Internal to comm/.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

struct MessageLane {
  // Starts messages while they `may`, as far as the window and the provider let it: `post` says whether that took one.
  absl::Status Start(absl::FunctionRef<bool(int64_t m)> may,
                     absl::FunctionRef<absl::StatusOr<bool>(int64_t m, FabricOperation* operation)> post) {
    while (started < total && started - finished < window && may(started)) {
      DISTILL_ASSIGN_OR_RETURN(const bool posted, post(started, &operation(started)));
      busy = !posted;
      if (!posted) break;
      ++started;
      moved = true;
    }
    return absl::OkStatus();
  }

  // Finishes those that have ended, until `take` says that it cannot take one yet.
  absl::Status Finish(absl::FunctionRef<bool(int64_t m)> take) {
    while (finished < started && operation(finished).done) {
      DISTILL_RETURN_IF_ERROR(operation(finished).status);
      if (!take(finished)) break;
      ++finished;
      moved = true;
    }
    return absl::OkStatus();
  }

  FabricOperation& operation(int64_t m) const {
    return operations[static_cast<size_t>(m % static_cast<int64_t>(operations.size()))];
  }

  const int64_t total;
  const int64_t window;
  std::vector<FabricOperation>& operations;  // as many as the window, or more
  int64_t started = 0;
  int64_t finished = 0;
  bool moved = false;  // set when anything happened
  bool busy = false;   // the provider did not take the next message
};

}  // namespace distill
