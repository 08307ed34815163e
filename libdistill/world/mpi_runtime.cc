#include "libdistill/world/mpi_runtime.h"

#include <mpi.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/backoff.h"

namespace distill {
namespace {

// MPI's own state is the process's; so is the knowledge that it is past saving.
std::atomic<bool> abandoned{false};

// Finalising is collective and has no deadline: it is entered only when every rank is known to be at its door.
void FinalizeMpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized || abandoned) return;
  MPI_Request request = MPI_REQUEST_NULL;
  int done = MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS;
  const Deadline deadline = Deadline::After(absl::Seconds(10));
  for (Backoff backoff; !done; backoff.Pause()) {
    if (backoff.slow() && deadline.Passed()) return;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
  }
  MPI_Finalize();
}

absl::Status Initialize() {
  int provided = 0;
  const int rc = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (rc != MPI_SUCCESS) return MpiError("MPI_Init_thread", rc);
  std::atexit(&FinalizeMpi);
  if (provided < MPI_THREAD_SERIALIZED) {
    return absl::InvalidArgumentError("this MPI cannot be called from several threads (MPI_THREAD_SERIALIZED)");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return absl::OkStatus();
}

}  // namespace

absl::Status StartMpi(const World& world) {
  if (world.launcher != "mpi") {
    return absl::InvalidArgumentError(
        absl::StrCat("MPI is there only under mpirun; this rank was started by ", world.launcher));
  }
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized) return absl::FailedPreconditionError("MPI has been finalised: it cannot start twice in a process");
  if (!initialized) DISTILL_RETURN_IF_ERROR(Initialize());
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != world.rank || size != world.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("MPI says rank ", rank, " of ", size, ", the environment rank ",
                                                   world.rank, " of ", world.world_size));
  }
  return absl::OkStatus();
}

void AbandonMpi() { abandoned = true; }

absl::Status MpiError(const char* what, int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(absl::StrCat(what, ": ", std::string(text, static_cast<size_t>(length))));
}

}  // namespace distill
