// Open MPI's own collectives: reference and fallback. Every operation is a non-blocking one that is tested until the
// deadline, for MPI's blocking calls have none. 16-bit floats travel as float32, which MPI can add, and are rounded
// once. What goes through MPI in one call is bounded, so that its int counts suffice. Before each collective the ranks
// tell each other which one they make: MPI itself may crash, wait for ever or add the wrong numbers where they differ.
// MPI cannot call off a collective, nor a send. After a call that did not end no other is made in this process, over
// any communicator, since it would let MPI write to buffers that are the caller's again (AbandonMpi); but a thread that
// was left in MPI_Comm_split cannot be held up.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/mpi_wire.h"
#include "libdistill/comm/pair_header.h"
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
  absl::Status Start(std::shared_ptr<Rendezvous> rendezvous, MPI_Comm comm) {
    rendezvous_ = std::move(rendezvous);
    own_->comm = comm;
    return CallMpi("MPI_Comm_set_errhandler",
                   [this] { return MPI_Comm_set_errhandler(own_->comm, MPI_ERRORS_RETURN); });
  }
  absl::Status Start(std::shared_ptr<Rendezvous> rendezvous) {
    rendezvous_ = std::move(rendezvous);
    DISTILL_RETURN_IF_ERROR(Await(
        "MPI_Comm_idup", [this](MPI_Request* request) { return MPI_Comm_idup(MPI_COMM_WORLD, &own_->comm, request); }));
    return Start(std::move(rendezvous_), own_->comm);
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

 private:
  using Request = MPI_Request*;
  // What MPI reads and writes beside the caller's buffers.
  struct Own {
    MPI_Comm comm = MPI_COMM_NULL;  // left to MPI_Finalize: freeing it is a collective call
    PairHeader header = {};
    char view[kViewBytes] = {};
    std::vector<char> views;
    std::vector<char> staged;
    std::vector<char> result;
  };
  // Begins a collective that every rank describes with the same text. FailedPrecondition: they do not; with both views.
  absl::Status Begin(const std::string& view);
  // Why a rank that waits, for `peer` alone if that is a rank, should go on no longer; `noticed`: when that one was
  // first seen to have left.
  absl::Status CheckWait(const char* what, int peer, const Deadline& deadline, absl::Time& noticed) const;
  // MPI_Comm_split within the time-out.
  absl::StatusOr<MPI_Comm> SplitComm(int color, int key) const;
  // Makes the non-blocking call and tests it until it has ended. `peer`: whom alone it waits for. After an error MPI is
  // abandoned: the operation may still be under way.
  absl::Status Await(const char* what, absl::FunctionRef<int(Request)> start, int peer = -1) const;
  absl::Status SendBytes(const void* data, int count, int peer);
  absl::Status ReceiveBytes(void* data, int count, int peer);
  absl::Status ReduceInPlace(void* data, int64_t count, DType dtype, ReduceOp op) const;
  // Divides what was summed, where the operation asks for it.
  void Finish(void* data, int64_t count, DType dtype, ReduceOp op) const;

  const SplitSeed seed_;
  const absl::Duration timeout_;
  std::shared_ptr<Rendezvous> rendezvous_;
  uint64_t call_ = 0;
  const std::shared_ptr<Own> own_ = std::make_shared<Own>();
};

absl::Status MpiCommunicator::Await(const char* what, absl::FunctionRef<int(Request)> start, int peer) const {
  const Deadline deadline = Deadline::After(timeout_);
  absl::Time noticed = absl::InfiniteFuture();
  MPI_Request request = MPI_REQUEST_NULL;
  int done = 0;
  absl::Status status = CallMpi(what, [&] { return start(&request); });
  for (Backoff backoff; status.ok() && !done; backoff.Pause()) {
    status = CallMpi(what, [&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
    if (status.ok() && !done && backoff.slow()) status = CheckWait(what, peer, deadline, noticed);
  }
  if (!status.ok()) AbandonMpi(status, own_);
  return status;
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
  std::memset(own_->view, 0, kViewBytes);
  std::memcpy(own_->view, view.data(), std::min(view.size(), kViewBytes - 1));
  own_->views.resize(kViewBytes * static_cast<size_t>(world_size()));
  DISTILL_RETURN_IF_ERROR(Await("comparing the calls (MPI_Iallgather)", [&](Request request) {
    return MPI_Iallgather(own_->view, kViewBytes, MPI_BYTE, own_->views.data(), kViewBytes, MPI_BYTE, own_->comm,
                          request);
  }));
  for (int r = 1; r < world_size(); ++r) {
    const char* theirs = own_->views.data() + kViewBytes * static_cast<size_t>(r);
    if (std::memcmp(own_->views.data(), theirs, kViewBytes) == 0) continue;
    return absl::FailedPreconditionError(absl::StrCat("ranks do not make the same calls: ", Describe(0), " calls ",
                                                      own_->views.data(), ", ", Describe(r), " calls ", theirs));
  }
  return absl::OkStatus();
}

void MpiCommunicator::Finish(void* data, int64_t count, DType dtype, ReduceOp op) const {
  const void* sources[] = {data};
  if (op == ReduceOp::kAverage) distill::Reduce(data, sources, 1, count, dtype, op, world_size());
}

absl::Status MpiCommunicator::ReduceInPlace(void* data, int64_t count, DType dtype, ReduceOp op) const {
  DISTILL_RETURN_IF_ERROR(Await("MPI_Iallreduce", [&](Request request) {
    return MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(count), MpiType(dtype), MpiOp(op), own_->comm, request);
  }));
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
  own_->staged.resize(static_cast<size_t>(std::min(count, kStagedElements) * SizeOf(wire)));
  for (int64_t begin = 0; begin < count; begin += kStagedElements) {
    const int64_t here = std::min(kStagedElements, count - begin);
    ToWire(static_cast<const char*>(send) + begin * size, own_->staged.data(), here, dtype);
    DISTILL_RETURN_IF_ERROR(ReduceInPlace(own_->staged.data(), here, wire, op));
    FromWire(own_->staged.data(), static_cast<char*>(receive) + begin * size, here, dtype);
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                              Placement) {
  DISTILL_RETURN_IF_ERROR(Begin(View("reduce-scatter", count, dtype, NameOf(op))));
  const DType wire = WireType(dtype);
  const int64_t size = SizeOf(dtype);
  const int64_t per_call = std::max<int64_t>(1, std::min(count, kStagedElements / world_size()));
  own_->staged.resize(static_cast<size_t>(world_size() * per_call * SizeOf(wire)));
  own_->result.resize(static_cast<size_t>(per_call * SizeOf(wire)));
  for (int64_t begin = 0; begin < count; begin += per_call) {
    const int64_t here = std::min(per_call, count - begin);
    for (int64_t r = 0; r < world_size(); ++r) {
      ToWire(static_cast<const char*>(send) + (r * count + begin) * size, own_->staged.data() + r * here * SizeOf(wire),
             here, dtype);
    }
    DISTILL_RETURN_IF_ERROR(Await("MPI_Ireduce_scatter_block", [&](Request request) {
      return MPI_Ireduce_scatter_block(own_->staged.data(), own_->result.data(), static_cast<int>(here), MpiType(wire),
                                       MpiOp(op), own_->comm, request);
    }));
    Finish(own_->result.data(), here, wire, op);
    FromWire(own_->result.data(), static_cast<char*>(receive) + begin * size, here, dtype);
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) {
  DISTILL_RETURN_IF_ERROR(Begin(View("all-gather", count, dtype)));
  const int64_t bytes = count * SizeOf(dtype);
  const int64_t per_call = std::max<int64_t>(1, std::min(bytes, 4 * kStagedElements / world_size()));
  own_->staged.resize(static_cast<size_t>(world_size() * per_call));
  for (int64_t begin = 0; begin < bytes; begin += per_call) {
    const int here = static_cast<int>(std::min(per_call, bytes - begin));
    DISTILL_RETURN_IF_ERROR(Await("MPI_Iallgather", [&](Request request) {
      return MPI_Iallgather(static_cast<const char*>(send) + begin, here, MPI_BYTE, own_->staged.data(), here, MPI_BYTE,
                            own_->comm, request);
    }));
    for (int64_t r = 0; r < world_size(); ++r) {
      std::memcpy(static_cast<char*>(receive) + r * bytes + begin, own_->staged.data() + r * here,
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
    DISTILL_RETURN_IF_ERROR(Await("MPI_Ibcast", [&](Request request) {
      return MPI_Ibcast(static_cast<char*>(buffer) + begin, here, MPI_BYTE, root, own_->comm, request);
    }));
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                       int root, Placement) {
  DISTILL_RETURN_IF_ERROR(Begin(View("reduce", count, dtype, absl::StrCat(NameOf(op), " to rank ", root))));
  const DType wire = WireType(dtype);
  const int64_t size = SizeOf(dtype);
  const int64_t per_call = std::min(count, kStagedElements);
  own_->staged.resize(static_cast<size_t>(per_call * SizeOf(wire)));
  for (int64_t begin = 0; begin < count; begin += per_call) {
    const int64_t here = std::min(per_call, count - begin);
    ToWire(static_cast<const char*>(send) + begin * size, own_->staged.data(), here, dtype);
    DISTILL_RETURN_IF_ERROR(Await("MPI_Ireduce", [&](Request request) {
      return MPI_Ireduce(rank() == root ? MPI_IN_PLACE : own_->staged.data(), own_->staged.data(),
                         static_cast<int>(here), MpiType(wire), MpiOp(op), root, own_->comm, request);
    }));
    if (rank() != root) continue;
    Finish(own_->staged.data(), here, wire, op);
    FromWire(own_->staged.data(), static_cast<char*>(receive) + begin * size, here, dtype);
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoAllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement) {
  DISTILL_RETURN_IF_ERROR(Begin(View("all-to-all", count, dtype)));
  const int64_t bytes = count * SizeOf(dtype);
  const int64_t per_call = std::max<int64_t>(1, std::min(bytes, 4 * kStagedElements / world_size()));
  own_->staged.resize(static_cast<size_t>(world_size() * per_call));
  own_->result.resize(own_->staged.size());
  for (int64_t begin = 0; begin < bytes; begin += per_call) {
    const int64_t here = std::min(per_call, bytes - begin);
    const size_t length = static_cast<size_t>(here);
    for (int64_t r = 0; r < world_size(); ++r) {
      std::memcpy(own_->staged.data() + r * here, static_cast<const char*>(send) + r * bytes + begin, length);
    }
    DISTILL_RETURN_IF_ERROR(Await("MPI_Ialltoall", [&](Request request) {
      return MPI_Ialltoall(own_->staged.data(), static_cast<int>(here), MPI_BYTE, own_->result.data(),
                           static_cast<int>(here), MPI_BYTE, own_->comm, request);
    }));
    for (int64_t r = 0; r < world_size(); ++r) {
      std::memcpy(static_cast<char*>(receive) + r * bytes + begin, own_->result.data() + r * here, length);
    }
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::SendBytes(const void* data, int count, int peer) {
  return Await(
      "MPI_Isend", [&](Request request) { return MPI_Isend(data, count, MPI_BYTE, peer, 0, own_->comm, request); },
      peer);
}

absl::Status MpiCommunicator::ReceiveBytes(void* data, int count, int peer) {
  return Await(
      "MPI_Irecv", [&](Request request) { return MPI_Irecv(data, count, MPI_BYTE, peer, 0, own_->comm, request); },
      peer);
}

absl::Status MpiCommunicator::DoSend(const void* data, int64_t count, DType dtype, int peer, Placement) {
  own_->header = {count, static_cast<int64_t>(dtype)};
  DISTILL_RETURN_IF_ERROR(SendBytes(&own_->header, sizeof(own_->header), peer));
  const int64_t bytes = count * SizeOf(dtype);
  for (int64_t begin = 0; begin < bytes; begin += kDirectElements) {
    const int here = static_cast<int>(std::min(kDirectElements, bytes - begin));
    DISTILL_RETURN_IF_ERROR(SendBytes(static_cast<const char*>(data) + begin, here, peer));
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoReceive(void* data, int64_t count, DType dtype, int peer, Placement) {
  DISTILL_RETURN_IF_ERROR(ReceiveBytes(&own_->header, sizeof(own_->header), peer));
  const PairHeader expected = {count, static_cast<int64_t>(dtype)};
  DISTILL_RETURN_IF_ERROR(Compare(own_->header, Describe(peer), expected, Describe(rank())));
  const int64_t bytes = count * SizeOf(dtype);
  for (int64_t begin = 0; begin < bytes; begin += kDirectElements) {
    const int here = static_cast<int>(std::min(kDirectElements, bytes - begin));
    DISTILL_RETURN_IF_ERROR(ReceiveBytes(static_cast<char*>(data) + begin, here, peer));
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
  DISTILL_ASSIGN_OR_RETURN(std::thread splits, StartThread("MPI_Comm_split", [call, color, key, comm = own_->comm] {
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
    AbandonMpi(split.status(), nullptr);  // the thread has all that its call writes to
    return split.status();
  }
  const auto create = [&](Setup setup) -> MadeCommunicator {
    if (setup.world.world_size == 1) return CreateAloneCommunicator();
    auto made = std::make_unique<MpiCommunicator>(setup);
    DISTILL_RETURN_IF_ERROR(made->Start(std::move(setup.rendezvous), *split));
    return made;
  };
  return SplitFrom(*this, seed_, part.members, part.rank, create);
}

absl::Status MpiCommunicator::DoBarrier() {
  DISTILL_RETURN_IF_ERROR(Begin("barrier"));
  return Await("MPI_Ibarrier", [&](Request request) { return MPI_Ibarrier(own_->comm, request); });
}

}  // namespace

MadeCommunicator CreateMpiCommunicator(Setup setup) {
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(Annotate(StartMpi(setup.world, setup.deadline), "comm_backend mpi")));
  auto made = std::make_unique<MpiCommunicator>(setup);
  DISTILL_RETURN_IF_ERROR(made->Start(std::move(setup.rendezvous)));
  return made;
}

}  // namespace distill
