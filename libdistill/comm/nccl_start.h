// How NCCL starts between the GPUs of a host while the other ranks are watched. Internal to comm/, in builds with CUDA.
//
//   DISTILL_ASSIGN_OR_RETURN(ncclComm_t comm, StartNccl(setup, prepared, /*most_blocks=*/32));
//
// NCCL's ranks find one another by its own bootstrap, which knows of no deadline and does not notice a rank that was
// killed before it came. So NCCL starts in its non-blocking mode: ncclCommInitRankConfig opens the network's interfaces
// and the device, which no other rank can hold up, and leaves the meeting to a thread of NCCL's own. This rank then
// asks for the state, and looks at the deadline and at the rendezvous, where a lost rank and another rank's error are
// known within seconds. A rank's own error goes out by the rendezvous at once, not by an exchange, in which ranks would
// take part that still wait for NCCL. A thread of ours around the blocking call would notice as much, but could not end
// it: only ncclCommAbort does, which needs the communicator that the blocking call has not yet given.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/comm/setup.h"

struct ncclComm;

namespace distill {

// Every rank of the setup's job must call it, also one that is alone on its host, with the current device set; blocks
// until NCCL is ready on all ranks or until setup.deadline. `prepared`: this rank's error of before, which becomes
// every rank's. `most_blocks`: thread blocks of a call's kernel. The caller aborts what it gets. Unavailable: NCCL's
// error, or a rank was lost; DeadlineExceeded. All ranks get the first cause, with rank and host.
[[nodiscard]] absl::StatusOr<ncclComm*> StartNccl(Setup& setup, const absl::Status& prepared, int most_blocks);

// Unavailable: "what: NCCL's text for `result`", a ncclResult_t, with what it knows of `comm`, which may be null.
[[nodiscard]] absl::Status NcclError(absl::string_view what, int result, ncclComm* comm);

}  // namespace distill
