#include "libdistill/comm/nccl_start.h"

#include <nccl.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/world/backoff.h"

namespace distill {
namespace {

// Rank 0 makes the name under which NCCL's ranks meet.
absl::StatusOr<std::string> MakeId(int rank) {
  if (rank != 0) return std::string();
  ncclUniqueId id;
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
    return NcclError("ncclGetUniqueId", result, nullptr);
  }
  return std::string(id.internal, sizeof(id.internal));
}

// A communicator that is not ready yet, and is aborted unless it is taken.
class StartingNccl {
 public:
  StartingNccl() = default;
  ~StartingNccl() { Abort(std::exchange(comm_, nullptr)); }
  StartingNccl(const StartingNccl&) = delete;
  StartingNccl& operator=(const StartingNccl&) = delete;

  absl::Status Begin(const Setup& setup, const std::string& id_bytes, int most_blocks);
  // Until it is ready, or a rank was lost, or the deadline. `setup`: whose ranks are named.
  absl::Status Await(const Setup& setup);
  ncclComm_t Take() { return std::exchange(comm_, nullptr); }

 private:
  static void Abort(ncclComm_t comm);
  // NCCL's own answer.
  ncclResult_t State() const;

  ncclComm_t comm_ = nullptr;
};

absl::Status StartingNccl::Begin(const Setup& setup, const std::string& id_bytes, int most_blocks) {
  ncclUniqueId id;
  if (id_bytes.size() != sizeof(id.internal)) return absl::FailedPreconditionError("rank 0 uses another NCCL");
  std::memcpy(id.internal, id_bytes.data(), sizeof(id.internal));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = most_blocks;
  const ncclResult_t result = ncclCommInitRankConfig(&comm_, setup.world.world_size, id, setup.world.rank, &config);
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  return NcclError("ncclCommInitRankConfig", result, comm_);
}

ncclResult_t StartingNccl::State() const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  return asked == ncclSuccess ? state : asked;
}

// How long an error of NCCL's waits for what the rendezvous learns: a rank that fails or is killed closes connections,
// and the others' NCCL may see that before they hear why.
absl::Duration PatienceFor(ncclResult_t error) {
  if (error == ncclRemoteError) return absl::Seconds(2);  // another rank's doing
  if (error == ncclSystemError) return absl::Seconds(1);  // maybe: a connection that was refused is one, too
  return absl::ZeroDuration();
}

absl::Status StartingNccl::Await(const Setup& setup) {
  const char* what = "ncclCommInitRankConfig";
  Deadline deadline = setup.deadline;
  absl::Status failed;  // NCCL's error
  for (Backoff backoff;; backoff.Pause()) {
    const ncclResult_t state = failed.ok() ? State() : ncclInProgress;
    if (failed.ok() && state == ncclSuccess) return absl::OkStatus();
    if (state != ncclInProgress) {
      failed = NcclError(what, state, comm_);
      deadline = Deadline::After(PatienceFor(state));
    }
    if (failed.ok() && !backoff.slow()) continue;
    DISTILL_RETURN_IF_ERROR(setup.rendezvous->CheckPeers());
    if (deadline.Passed()) return failed.ok() ? deadline.Error(absl::StrCat(what, ": meeting the other GPUs")) : failed;
  }
}

// On a thread of its own: ncclCommAbort waits for NCCL's thread, which looks whether it is to end while it waits for a
// network, and not in a call of the driver. What hangs there must not keep this rank from saying why it ends.
void StartingNccl::Abort(ncclComm_t comm) {
  constexpr std::chrono::seconds kPatience(5);
  if (comm == nullptr) return;
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> ended = done->get_future();
  absl::StatusOr<std::thread> thread = StartThread("ending NCCL's start", [comm, done] {
    ncclCommAbort(comm);
    done->set_value();
  });
  if (!thread.ok()) return LogWarning(absl::StrCat(thread.status().message(), ": NCCL's start is left as it is"));
  if (ended.wait_for(kPatience) == std::future_status::ready) return thread->join();
  thread->detach();
  LogWarning("ncclCommAbort does not return: NCCL's start is left as it is");
}

// The start has failed on this rank: what the ranks know of already, or else `mine`, which ends the others' waits. The
// job's rank 0 puts the name before what another rank announces, and nobody before what it announces itself.
absl::Status FirstCause(const Setup& setup, const absl::Status& mine) {
  if (const absl::Status news = setup.rendezvous->CheckPeers(); !news.ok()) return Annotate(news, "while NCCL starts");
  const int rank = setup.world.rank;
  const bool is_root = (setup.job_ranks.empty() ? rank : setup.job_ranks[static_cast<size_t>(rank)]) == 0;
  const absl::Status named = Annotate(mine, setup.NameOf(rank));
  setup.rendezvous->Announce(is_root ? named : mine);
  return named;
}

}  // namespace

absl::StatusOr<ncclComm*> StartNccl(Setup& setup, const absl::Status& prepared, int most_blocks) {
  const auto explain = [](const absl::Status& error) {
    return Annotate(error, "starting NCCL (comm_backend shm goes without it)");
  };
  const absl::StatusOr<std::string> id =
      prepared.ok() ? MakeId(setup.world.rank) : absl::StatusOr<std::string>(prepared);
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                           setup.Exchange(id.ok() ? id : absl::StatusOr<std::string>(explain(id.status()))));
  StartingNccl starting;
  // All have begun, then: a rank whose driver hangs is named here, and no rank waits for it in NCCL.
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(explain(starting.Begin(setup, ids[0], most_blocks))));
  const absl::Status started = starting.Await(setup);
  if (!started.ok()) return FirstCause(setup, explain(started));
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(absl::OkStatus()));
  return starting.Take();
}

absl::Status NcclError(absl::string_view what, int result, ncclComm* comm) {
  const char* detail = ncclGetLastError(comm);
  const bool known = detail != nullptr && *detail != '\0';
  return absl::UnavailableError(absl::StrCat(what, ": ", ncclGetErrorString(static_cast<ncclResult_t>(result)),
                                             known ? ": " : "", known ? detail : ""));
}

}  // namespace distill
