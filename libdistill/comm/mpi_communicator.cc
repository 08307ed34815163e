// Open MPI's own collectives: reference and fallback. Every operation is a non-blocking one that is tested until the
// deadline, for MPI's blocking calls have none. 16-bit floats travel as float32, which MPI can add, and are rounded
// once. What goes through MPI in one call is bounded, so that its int counts suffice. Before each collective the ranks
// tell each other which one they make: MPI itself may crash, wait for ever or add the wrong numbers where they differ.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/mpi_wire.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/world/backoff.h"
#include "libdistill/world/mpi_runtime.h"

namespace distill {
namespace {

constexpr int64_t kDirectElements = int64_t{64} << 20;
constexpr int64_t kStagedElements = int64_t{1} << 20;  // over all ranks' blocks
constexpr size_t kViewBytes = 64;
// What a rank sent before it left may still be on its way.
constexpr absl::Duration kLastWords = absl::Seconds(1);

MPI_Datatype MpiType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return MPI_FLOAT;
    case DType::kFloat64:
      return MPI_DOUBLE;
    case DType::kInt32:
      return MPI_INT32_T;
    case DType::kInt64:
      return MPI_INT64_T;
    default:
      return MPI_UINT8_T;
  }
}

MPI_Op MpiOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kProduct:
      return MPI_PROD;
    default:
      return MPI_SUM;
  }
}

// "all-reduce of 10 float32 (sum)".
std::string View(const char* operation, int64_t count, DType dtype, const std::string& more = "") {
  return absl::StrCat(operation, " of ", count, " ", NameOf(dtype), more.empty() ? "" : " (", more,
                      more.empty() ? "" : ")");
}

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(const Setup& setup)
      : Communicator(setup.world.rank, setup.Names()), seed_(setup), timeout_(setup.options.timeout) {}
  // Whoever is still in a call hears that this rank has done its part in it.
  ~MpiCommunicator() override {
    if (rendezvous_ != nullptr) rendezvous_->NoteFinishedCalls(call_);
  }
  absl::string_view backend() const override { return "mpi"; }
  absl::Status CheckPeers() override { return rendezvous_->CheckPeers(); }

  // Takes a communicator of MPI's that is this one's alone, or makes one: its messages never meet another's.
  void Start(std::shared_ptr<Rendezvous> rendezvous, MPI_Comm comm) {
    rendezvous_ = std::move(rendezvous);
    comm_ = comm;
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  absl::Status Start(std::shared_ptr<Rendezvous> rendezvous) {
    rendezvous_ = std::move(rendezvous);
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = MPI_Comm_idup(MPI_COMM_WORLD, &comm_, &request);
    DISTILL_RETURN_IF_ERROR(Await("MPI_Comm_idup", rc, request));
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    return absl::OkStatus();
  }

 protected:
  absl::Status DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                           Placement) override;
  absl::Status DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                               Placement) override;
  absl::Status DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) override;
  absl::Status DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement) override;
  absl::Status DoReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op, int root,
                        Placement) override;
  absl::Status DoAllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement) override;
  absl::Status DoBarrier() override;
  absl::Status DoSend(const void* data, int64_t count, DType dtype, int peer, Placement) override;
  absl::Status DoReceive(void* data, int64_t count, DType dtype, int peer, Placement) override;
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override;
  void Abandon(const absl::Status&) override { AbandonMpi(); }

 private:
  // Begins a collective that every rank describes with the same text. FailedPrecondition: they do not; with both views.
  absl::Status Begin(const std::string& view);
  // Why a rank that waits, for `peer` alone if that is a rank, should go on no longer; `noticed`: when that one was
  // first seen to have left.
  absl::Status CheckWait(const char* what, int peer, const Deadline& deadline, absl::Time& noticed) const;
  // MPI_Comm_split within the time-out.
  absl::StatusOr<MPI_Comm> SplitComm(int color, int key) const;
  // `peer`: whom alone it waits for. `received_bytes`: how many came.
  absl::Status Await(const char* what, int rc, MPI_Request request, int peer = -1, int* received_bytes = nullptr) const;
  absl::Status ReduceInPlace(void* data, int64_t count, DType dtype, ReduceOp op) const;
  // Divides what was summed, where the operation asks for it.
  void Finish(void* data, int64_t count, DType dtype, ReduceOp op) const;

  const SplitSeed seed_;
  const absl::Duration timeout_;
  std::shared_ptr<Rendezvous> rendezvous_;
  MPI_Comm comm_ = MPI_COMM_NULL;  // left to MPI_Finalize: freeing it is a collective call
  uint64_t call_ = 0;
  std::vector<char> views_;
  std::vector<char> staged_;
  std::vector<char> result_;
};

absl::Status MpiCommunicator::Await(const char* what, int rc, MPI_Request request, int peer,
                                    int* received_bytes) const {
  const Deadline deadline = Deadline::After(timeout_);
  absl::Time noticed = absl::InfiniteFuture();
  int done = 0;
  MPI_Status status;
  for (Backoff backoff; rc == MPI_SUCCESS && !done; backoff.Pause()) {
    rc = MPI_Test(&request, &done, &status);
    if (done || !backoff.slow()) continue;
    DISTILL_RETURN_IF_ERROR(CheckWait(what, peer, deadline, noticed));
  }
  if (rc == MPI_SUCCESS && received_bytes != nullptr) MPI_Get_count(&status, MPI_BYTE, received_bytes);
  return rc == MPI_SUCCESS ? absl::OkStatus() : MpiError(what, rc);
}

absl::Status MpiCommunicator::CheckWait(const char* what, int peer, const Deadline& deadline,
                                        absl::Time& noticed) const {
  DISTILL_RETURN_IF_ERROR(rendezvous_->CheckPeersIn(call_));
  if (peer >= 0 && rendezvous_->HasLeft(peer)) {
    const absl::Time now = absl::Now();
    noticed = std::min(noticed, now);
    if (now - noticed > kLastWords) return absl::UnavailableError(absl::StrCat(Describe(peer), " has left the job"));
  }
  if (!deadline.Passed()) return absl::OkStatus();
  if (peer >= 0) return deadline.Error(absl::StrCat(what, ": waiting for ", Describe(peer)));
  return deadline.Error(
      absl::StrCat(what, ": some rank of ", world_size(), " never came (MPI does not say which); it"));
}

absl::Status MpiCommunicator::Begin(const std::string& view) {
  ++call_;
  char mine[kViewBytes] = {};
  std::memcpy(mine, view.data(), std::min(view.size(), kViewBytes - 1));
  views_.resize(kViewBytes * static_cast<size_t>(world_size()));
  MPI_Request request = MPI_REQUEST_NULL;
  const int rc = MPI_Iallgather(mine, kViewBytes, MPI_BYTE, views_.data(), kViewBytes, MPI_BYTE, comm_, &request);
  DISTILL_RETURN_IF_ERROR(Await("comparing the calls (MPI_Iallgather)", rc, request));
  for (int r = 1; r < world_size(); ++r) {
    const char* theirs = views_.data() + kViewBytes * static_cast<size_t>(r);
    if (std::memcmp(views_.data(), theirs, kViewBytes) == 0) continue;
    return absl::FailedPreconditionError(absl::StrCat("ranks do not make the same calls: ", Describe(0), " calls ",
                                                      views_.data(), ", ", Describe(r), " calls ", theirs));
  }
  return absl::OkStatus();
}

void MpiCommunicator::Finish(void* data, int64_t count, DType dtype, ReduceOp op) const {
  const void* sources[] = {data};
  if (op == ReduceOp::kAverage) distill::Reduce(data, sources, 1, count, dtype, op, world_size());
}

absl::Status MpiCommunicator::ReduceInPlace(void* data, int64_t count, DType dtype, ReduceOp op) const {
  MPI_Request request = MPI_REQUEST_NULL;
  const int rc =
      MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(count), MpiType(dtype), MpiOp(op), comm_, &request);
  DISTILL_RETURN_IF_ERROR(Await("MPI_Iallreduce", rc, request));
  Finish(data, count, dtype, op);
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                          Placement) {
  DISTILL_RETURN_IF_ERROR(Begin(View("all-reduce", count, dtype, NameOf(op))));
  const DType wire = WireType(dtype);
  const int64_t size = SizeOf(dtype);
  if (wire == dtype) {
    if (send != receive) std::memcpy(receive, send, static_cast<size_t>(count * size));
    for (int64_t begin = 0; begin < count; begin += kDirectElements) {
      const int64_t here = std::min(kDirectElements, count - begin);
      DISTILL_RETURN_IF_ERROR(ReduceInPlace(static_cast<char*>(receive) + begin * size, here, dtype, op));
    }
    return absl::OkStatus();
  }
  staged_.resize(static_cast<size_t>(std::min(count, kStagedElements) * SizeOf(wire)));
  for (int64_t begin = 0; begin < count; begin += kStagedElements) {
    const int64_t here = std::min(kStagedElements, count - begin);
    ToWire(static_cast<const char*>(send) + begin * size, staged_.data(), here, dtype);
    DISTILL_RETURN_IF_ERROR(ReduceInPlace(staged_.data(), here, wire, op));
    FromWire(staged_.data(), static_cast<char*>(receive) + begin * size, here, dtype);
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                              Placement) {
  DISTILL_RETURN_IF_ERROR(Begin(View("reduce-scatter", count, dtype, NameOf(op))));
  const DType wire = WireType(dtype);
  const int64_t size = SizeOf(dtype);
  const int64_t per_call = std::max<int64_t>(1, std::min(count, kStagedElements / world_size()));
  staged_.resize(static_cast<size_t>(world_size() * per_call * SizeOf(wire)));
  result_.resize(static_cast<size_t>(per_call * SizeOf(wire)));
  for (int64_t begin = 0; begin < count; begin += per_call) {
    const int64_t here = std::min(per_call, count - begin);
    for (int64_t r = 0; r < world_size(); ++r) {
      ToWire(static_cast<const char*>(send) + (r * count + begin) * size, staged_.data() + r * here * SizeOf(wire),
             here, dtype);
    }
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = MPI_Ireduce_scatter_block(staged_.data(), result_.data(), static_cast<int>(here), MpiType(wire),
                                             MpiOp(op), comm_, &request);
    DISTILL_RETURN_IF_ERROR(Await("MPI_Ireduce_scatter_block", rc, request));
    Finish(result_.data(), here, wire, op);
    FromWire(result_.data(), static_cast<char*>(receive) + begin * size, here, dtype);
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) {
  DISTILL_RETURN_IF_ERROR(Begin(View("all-gather", count, dtype)));
  const int64_t bytes = count * SizeOf(dtype);
  const int64_t per_call = std::max<int64_t>(1, std::min(bytes, 4 * kStagedElements / world_size()));
  staged_.resize(static_cast<size_t>(world_size() * per_call));
  for (int64_t begin = 0; begin < bytes; begin += per_call) {
    const int here = static_cast<int>(std::min(per_call, bytes - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = MPI_Iallgather(static_cast<const char*>(send) + begin, here, MPI_BYTE, staged_.data(), here,
                                  MPI_BYTE, comm_, &request);
    DISTILL_RETURN_IF_ERROR(Await("MPI_Iallgather", rc, request));
    for (int64_t r = 0; r < world_size(); ++r) {
      std::memcpy(static_cast<char*>(receive) + r * bytes + begin, staged_.data() + r * here,
                  static_cast<size_t>(here));
    }
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement) {
  DISTILL_RETURN_IF_ERROR(Begin(View("broadcast", count, dtype, absl::StrCat("from rank ", root))));
  const int64_t bytes = count * SizeOf(dtype);
  for (int64_t begin = 0; begin < bytes; begin += kDirectElements) {
    const int here = static_cast<int>(std::min(kDirectElements, bytes - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = MPI_Ibcast(static_cast<char*>(buffer) + begin, here, MPI_BYTE, root, comm_, &request);
    DISTILL_RETURN_IF_ERROR(Await("MPI_Ibcast", rc, request));
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                       int root, Placement) {
  DISTILL_RETURN_IF_ERROR(Begin(View("reduce", count, dtype, absl::StrCat(NameOf(op), " to rank ", root))));
  const DType wire = WireType(dtype);
  const int64_t size = SizeOf(dtype);
  const int64_t per_call = std::min(count, kStagedElements);
  staged_.resize(static_cast<size_t>(per_call * SizeOf(wire)));
  for (int64_t begin = 0; begin < count; begin += per_call) {
    const int64_t here = std::min(per_call, count - begin);
    ToWire(static_cast<const char*>(send) + begin * size, staged_.data(), here, dtype);
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = MPI_Ireduce(rank() == root ? MPI_IN_PLACE : staged_.data(), staged_.data(), static_cast<int>(here),
                               MpiType(wire), MpiOp(op), root, comm_, &request);
    DISTILL_RETURN_IF_ERROR(Await("MPI_Ireduce", rc, request));
    if (rank() != root) continue;
    Finish(staged_.data(), here, wire, op);
    FromWire(staged_.data(), static_cast<char*>(receive) + begin * size, here, dtype);
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoAllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement) {
  DISTILL_RETURN_IF_ERROR(Begin(View("all-to-all", count, dtype)));
  const int64_t bytes = count * SizeOf(dtype);
  const int64_t per_call = std::max<int64_t>(1, std::min(bytes, 4 * kStagedElements / world_size()));
  staged_.resize(static_cast<size_t>(world_size() * per_call));
  result_.resize(staged_.size());
  for (int64_t begin = 0; begin < bytes; begin += per_call) {
    const int64_t here = std::min(per_call, bytes - begin);
    const size_t length = static_cast<size_t>(here);
    for (int64_t r = 0; r < world_size(); ++r) {
      std::memcpy(staged_.data() + r * here, static_cast<const char*>(send) + r * bytes + begin, length);
    }
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = MPI_Ialltoall(staged_.data(), static_cast<int>(here), MPI_BYTE, result_.data(),
                                 static_cast<int>(here), MPI_BYTE, comm_, &request);
    DISTILL_RETURN_IF_ERROR(Await("MPI_Ialltoall", rc, request));
    for (int64_t r = 0; r < world_size(); ++r) {
      std::memcpy(static_cast<char*>(receive) + r * bytes + begin, result_.data() + r * here, length);
    }
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoSend(const void* data, int64_t count, DType dtype, int peer, Placement) {
  const int64_t bytes = count * SizeOf(dtype);
  for (int64_t begin = 0; begin < bytes; begin += kDirectElements) {
    const int here = static_cast<int>(std::min(kDirectElements, bytes - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = MPI_Isend(static_cast<const char*>(data) + begin, here, MPI_BYTE, peer, 0, comm_, &request);
    DISTILL_RETURN_IF_ERROR(Await("MPI_Isend", rc, request, peer));
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoReceive(void* data, int64_t count, DType dtype, int peer, Placement) {
  const int64_t bytes = count * SizeOf(dtype);
  for (int64_t begin = 0; begin < bytes; begin += kDirectElements) {
    const int here = static_cast<int>(std::min(kDirectElements, bytes - begin));
    int came = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = MPI_Irecv(static_cast<char*>(data) + begin, here, MPI_BYTE, peer, 0, comm_, &request);
    DISTILL_RETURN_IF_ERROR(Await("MPI_Irecv", rc, request, peer, &came));
    if (came == here) continue;
    return absl::FailedPreconditionError(absl::StrCat(Describe(peer), " sent ", came, " bytes where this rank expects ",
                                                      here, ": the ranks do not make the same calls"));
  }
  return absl::OkStatus();
}

// MPI_Comm_split has no non-blocking form: a thread makes the call, and is left in it when a rank never comes.
absl::StatusOr<MPI_Comm> MpiCommunicator::SplitComm(int color, int key) const {
  struct Call {
    std::atomic<bool> done{false};
    MPI_Comm made = MPI_COMM_NULL;
    int rc = MPI_SUCCESS;
  };
  const auto call = std::make_shared<Call>();
  DISTILL_ASSIGN_OR_RETURN(std::thread splits, StartThread("MPI_Comm_split", [call, color, key, comm = comm_] {
                             call->rc = MPI_Comm_split(comm, color, key, &call->made);
                             call->done.store(true, std::memory_order_release);
                           }));
  splits.detach();
  const Deadline deadline = Deadline::After(timeout_);
  absl::Time noticed = absl::InfiniteFuture();
  for (Backoff backoff; !call->done.load(std::memory_order_acquire); backoff.Pause()) {
    if (backoff.slow()) DISTILL_RETURN_IF_ERROR(CheckWait("MPI_Comm_split", -1, deadline, noticed));
  }
  if (call->rc != MPI_SUCCESS) return MpiError("MPI_Comm_split", call->rc);
  return call->made;
}

absl::StatusOr<std::unique_ptr<Communicator>> MpiCommunicator::DoSplit(const SplitPart& part) {
  const absl::StatusOr<MPI_Comm> split = SplitComm(part.members.empty() ? MPI_UNDEFINED : part.color, part.key);
  if (!split.ok()) {
    // No rank is to use this communicator while one may still be in the split.
    Abort(split.status());
    AbandonMpi();
    return split.status();
  }
  const auto create = [&](Setup setup) -> MadeCommunicator {
    if (setup.world.world_size == 1) return CreateAloneCommunicator();
    auto made = std::make_unique<MpiCommunicator>(setup);
    made->Start(std::move(setup.rendezvous), *split);
    return made;
  };
  return SplitFrom(*this, seed_, part.members, part.rank, create);
}

absl::Status MpiCommunicator::DoBarrier() {
  DISTILL_RETURN_IF_ERROR(Begin("barrier"));
  MPI_Request request = MPI_REQUEST_NULL;
  const int rc = MPI_Ibarrier(comm_, &request);
  return Await("MPI_Ibarrier", rc, request);
}

}  // namespace

MadeCommunicator CreateMpiCommunicator(Setup setup) {
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(Annotate(StartMpi(setup.world, setup.deadline), "comm_backend mpi")));
  auto made = std::make_unique<MpiCommunicator>(setup);
  DISTILL_RETURN_IF_ERROR(made->Start(std::move(setup.rendezvous)));
  return made;
}

}  // namespace distill
