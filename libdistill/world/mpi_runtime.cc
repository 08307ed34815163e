#include "libdistill/world/mpi_runtime.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/world/backoff.h"

namespace distill {
namespace {

// MPI's own state is the process's; so is the knowledge that it is past saving. Never destroyed.
struct Runtime {
  std::mutex calling;
  // Guarded by `calling`:
  absl::Status abandoned;  // why
  std::vector<std::shared_ptr<void>> kept;
};

Runtime& TheRuntime() {
  static auto* const runtime = new Runtime();
  return *runtime;
}

// Finalising is collective and has no deadline: it is entered only when every rank is known to be at its door.
void FinalizeMpi() {
  const std::lock_guard<std::mutex> lock(TheRuntime().calling);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized || !TheRuntime().abandoned.ok()) return;
  MPI_Request request = MPI_REQUEST_NULL;
  int done = MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS;
  const Deadline deadline = Deadline::After(absl::Seconds(10));
  for (Backoff backoff; !done; backoff.Pause()) {
    if (backoff.slow() && deadline.Passed()) return;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
  }
  MPI_Finalize();
}

// Ends the process unless it is destroyed before the deadline.
class StartWatchdog {
 public:
  // `world` outlives this object.
  [[nodiscard]] absl::Status Start(const World& world, const Deadline& deadline) {
    DISTILL_ASSIGN_OR_RETURN(
        thread_, StartThread("the watchdog of MPI's start", [this, &world, deadline] {
          std::unique_lock<std::mutex> lock(mutex_);
          while (!started_ && !deadline.Passed()) {
            changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(deadline.Left(), absl::Hours(1))));
          }
          if (started_) return;
          const absl::Status error = deadline.Error(
              absl::StrCat("rank ", world.rank, " on ", world.host, ": starting MPI (MPI_Init_thread): some rank of ",
                           world.world_size, " never came (is every host of the job up, and every rank started?); it"));
          std::fprintf(stderr, "error: %s\n", std::string(error.message()).c_str());
          _exit(1);
        }));
    return absl::OkStatus();
  }
  ~StartWatchdog() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      started_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::thread thread_;
};

absl::Status Initialize(const World& world, const Deadline& deadline) {
  StartWatchdog watchdog;
  DISTILL_RETURN_IF_ERROR(watchdog.Start(world, deadline));
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

absl::Status StartMpi(const World& world, const Deadline& deadline) {
  if (world.launcher != "mpi") {
    return absl::InvalidArgumentError(
        absl::StrCat("MPI is there only under mpirun; this rank was started by ", world.launcher));
  }
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized) return absl::FailedPreconditionError("MPI has been finalised: it cannot start twice in a process");
  if (!initialized) DISTILL_RETURN_IF_ERROR(Initialize(world, deadline));
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

absl::Status CallMpi(const char* what, absl::FunctionRef<int()> call) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard<std::mutex> lock(runtime.calling);
  if (!runtime.abandoned.ok()) {
    return Annotate(runtime.abandoned,
                    absl::StrCat(what,
                                 ": this process makes no more calls of MPI's since one did not end (start the "
                                 "job again): first"));
  }
  const int rc = call();
  return rc == MPI_SUCCESS ? absl::OkStatus() : MpiError(what, rc);
}

void AbandonMpi(const absl::Status& why, std::shared_ptr<void> own) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard<std::mutex> lock(runtime.calling);
  runtime.abandoned.Update(why);
  runtime.kept.push_back(std::move(own));
}

absl::Status MpiError(const char* what, int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(absl::StrCat(what, ": ", std::string(text, static_cast<size_t>(length))));
}

}  // namespace distill
