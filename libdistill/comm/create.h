// Makes the communicator of a job: picks the backend and lets the ranks meet.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/comm/preferences.h"
#include "libdistill/core/describe.h"
#include "libdistill/world/world.h"

namespace distill {

struct CommunicatorOptions {
  // auto: alone for one rank; nccl when all ranks share a host and each computes on a GPU of its own (and this build
  // has NCCL); shm when they share a host; hierarchical between hosts of which some have several ranks: nccl or shm
  // inside each, by the same rule, and fabric across; else fabric. Or: shm, fabric, hierarchical, mpi, nccl.
  BackendPreference backend = BackendPreference::kAuto;
  // How ranks on several hosts reduce and gather: auto (what the table of costs says is fastest for the size, in two
  // levels too), flat (the same without levels), hierarchical (always in levels), or an algorithm for the fabric and
  // the lanes of two levels, for what it can do (a tree: broadcasts and reduces to one rank alone). Under auto the
  // environment's DISTILL_COMM_ALGORITHM decides, if it is there. Every rank must say the same. InvalidArgument: a
  // backend is named under which this has no effect.
  AlgorithmPreference algorithm = AlgorithmPreference::kAuto;
  // The table of costs, as distillrun --tune writes it; rank 0's holds for all. Empty: DISTILL_COMM_TUNING_FILE, else
  // the built-in table of the fabric that joins the hosts (comm/default_costs.h).
  std::string tuning_file = {};
  absl::Duration timeout = absl::Seconds(300);
  // How long a rank may say that it works outside of calls while the others wait (comm/busy_phase.h): that time does
  // not count for `timeout`.
  absl::Duration phase_timeout = absl::Hours(2);
  // How long a rank may be silent before it is lost. A thread beats for each rank, so that computing is no silence.
  absl::Duration heartbeat_timeout = absl::Seconds(15);
  // How long a call, and what a rank does outside of calls, may continue after an Abort or a loss before a watchdog
  // ends the process.
  absl::Duration abort_grace = absl::Seconds(30);
  // Each collective is compared over all ranks before it runs: ranks that make different ones, or pass other counts,
  // types, operations or roots, all get FailedPrecondition with both ranks' view instead of a hang or wrong bytes.
  // Costs an all-gather a call. DISTILL_COMM_DEBUG=1 in the environment asks for the same; one rank that asks is
  // enough.
  bool debug = false;
  // Which of the GPUs that CUDA shows this process it computes on; -1: on none.
  int device_index = -1;
  // What this rank has failed at before (its command line, say): the ranks then meet only to end with it together.
  absl::Status own_error = {};
};

template <class V>
void Describe(V& v, CommunicatorOptions& o) {
  v.Group("Run");
  v.Field("comm_backend", o.backend,
          "how ranks exchange gradients; auto: nccl where each rank has a GPU of one host, else shm inside a host, "
          "fabric between, hierarchical for both")
      .RefuseWord("gloo", "that is torch.distributed's; here fabric or shm do its work, and auto chooses")
      .Alias("ddp_backend", "dist_backend")
      .Similar("backend");
  v.Field("comm_algorithm", o.algorithm,
          "how gradients are summed between hosts; auto: the fastest for the size, by the table of costs; flat: the "
          "fastest that does not work inside the hosts first; a name: that algorithm where it can be, "
          "and the table for the rest; the trees are for broadcasts and reduces to one rank alone");
  v.Field("comm_tuning_file", o.tuning_file,
          "table of costs for comm_algorithm auto, as distillrun --tune writes it; rank 0's is every rank's; "
          "without one: a built-in table for the fabric that joins the hosts")
      .Path();
  v.Field("comm_timeout_seconds", o.timeout, Above(0), "longest time that a rank waits for the others")
      .Alias("ddp_timeout")
      .Similar("comm_timeout", "timeout");
  v.Field("phase_timeout_seconds", o.phase_timeout, Above(0),
          "longest time that one rank may load, read or save while the others wait for it");
  v.Field("heartbeat_timeout_seconds", o.heartbeat_timeout, Above(0),
          "how long a rank may be silent (stopped, or cut off) before it is lost; computing is no silence");
  v.Field("abort_grace_seconds", o.abort_grace, AtLeast(0), "how long a call may take to end after a loss")
      .InCodeOnly();
}

// Blocks until all ranks have joined or the time-out passed; every rank must call it. InvalidArgument: a backend that
// this build or these hosts cannot use (the message says why). FailedPrecondition: ranks that differ in build, backend
// or kind of device, by name. DeadlineExceeded: names the ranks that never came.
// An error of one rank alone (an own_error too) is returned on all, with "rank N on HOST: " before it.
// Also gives crash signals that a vendor's library took back to the program (world/crash_signals.h).
[[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> CreateCommunicator(const World& world,
                                                                               const CommunicatorOptions& options);

// Whether every rank was told this error of CreateCommunicator, so that one of them can say it for all.
bool IsSharedError(const absl::Status& error);

// The communicator of a job of one rank: every collective is a copy. Never fails.
std::unique_ptr<Communicator> CreateAloneCommunicator();

}  // namespace distill
