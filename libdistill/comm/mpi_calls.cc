#include "libdistill/comm/mpi_calls.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/world/backoff.h"
#include "libdistill/world/mpi_runtime.h"

namespace distill {
namespace {

// What a rank sent before it left may still be on its way.
constexpr absl::Duration kLastWords = absl::Seconds(1);

// 16-bit floats, which MPI cannot add, do not come here as such (mpi_communicator.cc). Sums and products of integers
// wrap (communicator.h), which MPI does with unsigned types alone: the bits are the same.
MPI_Datatype MpiType(DType dtype, ReduceOp op) {
  const bool is_signed = op == ReduceOp::kMin || op == ReduceOp::kMax;
  const MPI_Datatype types[] = {MPI_FLOAT,
                                MPI_DOUBLE,
                                MPI_UINT8_T,
                                MPI_UINT8_T,
                                is_signed ? MPI_INT32_T : MPI_UINT32_T,
                                is_signed ? MPI_INT64_T : MPI_UINT64_T,
                                MPI_UINT8_T};  // in the order of DType
  return types[static_cast<size_t>(dtype)];
}

MPI_Op MpiOp(ReduceOp op) {
  const MPI_Op ops[] = {MPI_SUM, MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD};  // in the order of ReduceOp
  return ops[static_cast<size_t>(op)];
}

MPI_Request* RequestOf(void* request) { return static_cast<MPI_Request*>(request); }

}  // namespace

struct MpiCalls::Comm {
  MPI_Comm comm = MPI_COMM_NULL;  // left to MPI_Finalize: freeing it is a collective call
};

struct MpiCalls::Waiting {
  Deadline deadline;
  absl::Time noticed = absl::InfiniteFuture();  // when the peer was first seen to have left
};

absl::Status MpiCalls::Start(std::shared_ptr<Rendezvous> rendezvous, std::shared_ptr<Comm> comm) {
  rendezvous_ = std::move(rendezvous);
  comm_ = std::move(comm);
  if (comm_ == nullptr) {
    comm_ = std::make_shared<Comm>();
    DISTILL_RETURN_IF_ERROR(Await("MPI_Comm_idup", [this](void* request) {
      return MPI_Comm_idup(MPI_COMM_WORLD, &comm_->comm, RequestOf(request));
    }));
  }
  return CallMpi("MPI_Comm_set_errhandler", [this] { return MPI_Comm_set_errhandler(comm_->comm, MPI_ERRORS_RETURN); });
}

void MpiCalls::Abandon(const absl::Status& why) const {
  AbandonMpi(why, std::make_shared<std::pair<std::shared_ptr<Comm>, std::shared_ptr<void>>>(comm_, kept_));
}

absl::Status MpiCalls::Await(const char* what, absl::FunctionRef<int(void* request)> start, int peer) const {
  Waiting waiting = {.deadline = rendezvous_->DeadlineAfter(timeout_)};
  MPI_Request request = MPI_REQUEST_NULL;
  int done = 0;
  absl::Status status = CallMpi(what, [&] { return start(&request); });
  for (Backoff backoff; status.ok() && !done; backoff.Pause()) {
    status = CallMpi(what, [&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
    if (status.ok() && !done && backoff.slow()) status = CheckWait(what, peer, waiting);
  }
  if (!status.ok()) Abandon(status);
  return status;
}

absl::Status MpiCalls::CheckWait(const char* what, int peer, Waiting& waiting) const {
  DISTILL_RETURN_IF_ERROR(rendezvous_->CheckPeersIn(call_));
  if (peer >= 0 && rendezvous_->HasLeft(peer)) {
    const absl::Time now = absl::Now();
    waiting.noticed = std::min(waiting.noticed, now);
    if (now - waiting.noticed > kLastWords) {
      return absl::UnavailableError(absl::StrCat(ranks_.Describe(peer), " has left the job"));
    }
  }
  if (!waiting.deadline.Passed()) return absl::OkStatus();
  if (peer >= 0) return waiting.deadline.Error(absl::StrCat(what, ": waiting for ", ranks_.Describe(peer)));
  return waiting.deadline.Error(
      absl::StrCat(what, ": some rank of ", ranks_.world_size(), " never came (MPI does not say which); it"));
}

absl::Status MpiCalls::Make(const CommCall& call, const char* what) const {
  const int count = static_cast<int>(call.count);
  const MPI_Datatype type = MpiType(call.dtype, call.op);
  const MPI_Op op = MpiOp(call.op);
  const MPI_Comm comm = comm_->comm;
  const void* const in = call.input == call.output ? MPI_IN_PLACE : call.input;
  void* const out = call.output;
  const auto await = [&](const char* name, absl::FunctionRef<int(MPI_Request*)> start) {
    return Await(
        what != nullptr ? what : name, [&](void* request) { return start(RequestOf(request)); }, call.peer);
  };
  switch (call.operation) {
    case CommOperation::kAllReduce:
      return await("MPI_Iallreduce", [&](MPI_Request* r) { return MPI_Iallreduce(in, out, count, type, op, comm, r); });
    case CommOperation::kReduceScatter:
      return await("MPI_Ireduce_scatter_block",
                   [&](MPI_Request* r) { return MPI_Ireduce_scatter_block(in, out, count, type, op, comm, r); });
    case CommOperation::kAllGather:
      return await("MPI_Iallgather",
                   [&](MPI_Request* r) { return MPI_Iallgather(in, count, type, out, count, type, comm, r); });
    case CommOperation::kBroadcast:
      return await("MPI_Ibcast", [&](MPI_Request* r) { return MPI_Ibcast(out, count, type, call.root, comm, r); });
    case CommOperation::kReduce:
      return await("MPI_Ireduce", [&](MPI_Request* r) {
        return MPI_Ireduce(ranks_.rank() == call.root ? in : call.input, out, count, type, op, call.root, comm, r);
      });
    case CommOperation::kAllToAll:
      return await("MPI_Ialltoall",
                   [&](MPI_Request* r) { return MPI_Ialltoall(in, count, type, out, count, type, comm, r); });
    case CommOperation::kSend:
      return await("MPI_Isend",
                   [&](MPI_Request* r) { return MPI_Isend(call.input, count, type, call.peer, 0, comm, r); });
    case CommOperation::kReceive:
      return await("MPI_Irecv", [&](MPI_Request* r) { return MPI_Irecv(out, count, type, call.peer, 0, comm, r); });
    default:
      return await("MPI_Ibarrier", [&](MPI_Request* r) { return MPI_Ibarrier(comm, r); });
  }
}

// MPI_Comm_split has no non-blocking form: a thread makes the call, and is left in it when a rank never comes; it has
// all that its call writes to.
absl::StatusOr<std::shared_ptr<MpiCalls::Comm>> MpiCalls::Split(bool takes_part, int color, int key) const {
  struct Call {
    std::atomic<bool> done{false};
    std::shared_ptr<Comm> made = std::make_shared<Comm>();
    int rc = MPI_SUCCESS;
  };
  const auto call = std::make_shared<Call>();
  const auto split = [call, color = takes_part ? color : MPI_UNDEFINED, key, comm = comm_] {
    call->rc = MPI_Comm_split(comm->comm, color, key, &call->made->comm);
    call->done.store(true, std::memory_order_release);
  };
  const absl::Status status = [&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(std::thread splits, StartThread("MPI_Comm_split", split));
    splits.detach();
    Waiting waiting = {.deadline = rendezvous_->DeadlineAfter(timeout_)};
    for (Backoff backoff; !call->done.load(std::memory_order_acquire); backoff.Pause()) {
      if (backoff.slow()) DISTILL_RETURN_IF_ERROR(CheckWait("MPI_Comm_split", -1, waiting));
    }
    return call->rc == MPI_SUCCESS ? absl::OkStatus() : MpiError("MPI_Comm_split", call->rc);
  }();
  if (status.ok()) return takes_part ? call->made : nullptr;
  return status;
}

}  // namespace distill
