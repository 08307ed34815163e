#include "libdistill/world/mpi_rendezvous.h"

#include <mpi.h>

#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/backoff.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/mpi_runtime.h"

namespace distill {
namespace {

class MpiRendezvous : public Rendezvous {
 public:
  explicit MpiRendezvous(const World& world) : world_(world) {}

  absl::string_view kind() const override { return "mpi"; }

  // A communicator of its own, so that its messages never meet another's.
  absl::Status Meet(const Deadline& deadline) {
    DISTILL_RETURN_IF_ERROR(StartMpi(world_, deadline));
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = MPI_Comm_idup(MPI_COMM_WORLD, &comm_, &request);
    return Await("MPI_Comm_idup", rc, request, deadline);
  }

  absl::StatusOr<std::vector<std::string>> AllGather(const std::string& blob, const Deadline& deadline) override {
    if (blob.size() > kMaxBlobBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a blob of ", blob.size(), " bytes; 16 MiB is the limit"));
    }
    const size_t ranks = static_cast<size_t>(world_.world_size);
    std::vector<int> lengths(ranks);
    const int length = static_cast<int>(blob.size());
    MPI_Request request = MPI_REQUEST_NULL;
    int rc = MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm_, &request);
    DISTILL_RETURN_IF_ERROR(Await("the exchange of lengths", rc, request, deadline));
    const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    if (total > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("an exchange of ", total, " bytes; MPI takes 2 GiB"));
    }
    std::vector<int> offsets(ranks, 0);
    std::partial_sum(lengths.begin(), lengths.end() - 1, offsets.begin() + 1);
    std::string all(static_cast<size_t>(total), '\0');
    rc = MPI_Iallgatherv(blob.data(), length, MPI_BYTE, all.data(), lengths.data(), offsets.data(), MPI_BYTE, comm_,
                         &request);
    DISTILL_RETURN_IF_ERROR(Await("the exchange", rc, request, deadline));
    std::vector<std::string> blobs(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      blobs[r] = all.substr(static_cast<size_t>(offsets[r]), static_cast<size_t>(lengths[r]));
    }
    return blobs;
  }

 private:
  absl::Status Await(const char* what, int rc, MPI_Request request, const Deadline& deadline) {
    int done = 0;
    for (Backoff backoff; rc == MPI_SUCCESS && !done; backoff.Pause()) {
      rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done || !backoff.slow() || !deadline.Passed()) continue;
      AbandonMpi();
      return deadline.Error(absl::StrCat(what, " over MPI: some rank of ", world_.world_size, " never came; it"));
    }
    if (rc == MPI_SUCCESS) return absl::OkStatus();
    AbandonMpi();
    return MpiError(what, rc);
  }

  const World world_;
  MPI_Comm comm_ = MPI_COMM_NULL;  // left to MPI_Finalize: freeing it is a collective call
};

}  // namespace

absl::StatusOr<std::unique_ptr<Rendezvous>> CreateMpiRendezvous(const World& world, const Deadline& deadline) {
  auto rendezvous = std::make_unique<MpiRendezvous>(world);
  DISTILL_RETURN_IF_ERROR(rendezvous->Meet(deadline));
  return rendezvous;
}

}  // namespace distill
