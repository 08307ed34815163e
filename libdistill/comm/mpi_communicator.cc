// Open MPI's own collectives: reference and fallback. 16-bit floats travel as float32, which MPI can add, and are
// rounded once. What goes through MPI in one call is bounded, so that its int counts suffice. Before each collective
// the ranks tell each other which one they make: MPI itself may crash, wait for ever or add the wrong numbers where
// they differ.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/mpi_calls.h"
#include "libdistill/comm/mpi_wire.h"
#include "libdistill/comm/pair_header.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/mpi_runtime.h"

namespace distill {
namespace {

constexpr int64_t kDirectElements = int64_t{64} << 20;
constexpr int64_t kStagedElements = int64_t{1} << 20;  // over all ranks' blocks
constexpr size_t kViewBytes = 64;
// "all-reduce of 10 float32 (sum)".
std::string View(const char* operation, int64_t count, DType dtype, const std::string& more = "") {
  return absl::StrCat(operation, " of ", count, " ", NameOf(dtype), more.empty() ? "" : " (", more,
                      more.empty() ? "" : ")");
}

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(const Setup& setup)
      : Communicator(setup.world.rank, setup.Names()),
        seed_(setup),
        own_(std::make_shared<Own>()),
        calls_(*this, setup.options.timeout, own_) {}
  // Whoever is still in a call hears that this rank has done its part in it.
  ~MpiCommunicator() override {
    if (calls_.has_started()) calls_.rendezvous().NoteFinishedCalls(calls_.call());
  }
  absl::string_view backend() const override { return "mpi"; }
  absl::Status CheckPeers() override { return calls_.rendezvous().CheckPeers(); }

  absl::Status Start(std::shared_ptr<Rendezvous> rendezvous, std::shared_ptr<MpiCalls::Comm> comm) {
    return calls_.Start(std::move(rendezvous), std::move(comm));
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
  // What MPI reads and writes beside the caller's buffers.
  struct Own {
    PairHeader header = {};
    char view[kViewBytes] = {};
    std::vector<char> views;
    std::vector<char> staged;
    std::vector<char> result;
  };
  // Begins a collective that every rank describes with the same text. FailedPrecondition: they do not; with both views.
  absl::Status Begin(const std::string& view);
  absl::Status ReduceInPlace(void* data, int64_t count, DType dtype, ReduceOp op) const;
  // Divides what was summed, where the operation asks for it.
  void Finish(void* data, int64_t count, DType dtype, ReduceOp op) const;

  const SplitSeed seed_;
  const std::shared_ptr<Own> own_;
  MpiCalls calls_;
};

absl::Status MpiCommunicator::Begin(const std::string& view) {
  calls_.StartCall();
  std::memset(own_->view, 0, kViewBytes);
  std::memcpy(own_->view, view.data(), std::min(view.size(), kViewBytes - 1));
  own_->views.resize(kViewBytes * static_cast<size_t>(world_size()));
  DISTILL_RETURN_IF_ERROR(
      calls_.AllGather(own_->view, own_->views.data(), kViewBytes, "comparing the calls (MPI_Iallgather)"));
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
  DISTILL_RETURN_IF_ERROR(calls_.AllReduce(data, count, dtype, op));
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
    DISTILL_RETURN_IF_ERROR(calls_.ReduceScatter(own_->staged.data(), own_->result.data(), here, wire, op));
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
    const int64_t here = std::min(per_call, bytes - begin);
    DISTILL_RETURN_IF_ERROR(calls_.AllGather(static_cast<const char*>(send) + begin, own_->staged.data(), here));
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
    const int64_t here = std::min(kDirectElements, bytes - begin);
    DISTILL_RETURN_IF_ERROR(calls_.Broadcast(static_cast<char*>(buffer) + begin, here, root));
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
    DISTILL_RETURN_IF_ERROR(calls_.Reduce(own_->staged.data(), here, wire, op, root));
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
    DISTILL_RETURN_IF_ERROR(calls_.AllToAll(own_->staged.data(), own_->result.data(), here));
    for (int64_t r = 0; r < world_size(); ++r) {
      std::memcpy(static_cast<char*>(receive) + r * bytes + begin, own_->result.data() + r * here, length);
    }
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoSend(const void* data, int64_t count, DType dtype, int peer, Placement) {
  own_->header = {count, static_cast<int64_t>(dtype)};
  DISTILL_RETURN_IF_ERROR(calls_.Send(&own_->header, sizeof(own_->header), peer));
  const int64_t bytes = count * SizeOf(dtype);
  for (int64_t begin = 0; begin < bytes; begin += kDirectElements) {
    const int64_t here = std::min(kDirectElements, bytes - begin);
    DISTILL_RETURN_IF_ERROR(calls_.Send(static_cast<const char*>(data) + begin, here, peer));
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::DoReceive(void* data, int64_t count, DType dtype, int peer, Placement) {
  DISTILL_RETURN_IF_ERROR(calls_.Receive(&own_->header, sizeof(own_->header), peer));
  const PairHeader expected = {count, static_cast<int64_t>(dtype)};
  DISTILL_RETURN_IF_ERROR(Compare(own_->header, Describe(peer), expected, Describe(rank())));
  const int64_t bytes = count * SizeOf(dtype);
  for (int64_t begin = 0; begin < bytes; begin += kDirectElements) {
    const int64_t here = std::min(kDirectElements, bytes - begin);
    DISTILL_RETURN_IF_ERROR(calls_.Receive(static_cast<char*>(data) + begin, here, peer));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> MpiCommunicator::DoSplit(const SplitPart& part) {
  const absl::StatusOr<std::shared_ptr<MpiCalls::Comm>> split =
      calls_.Split(/*takes_part=*/!part.members.empty(), part.color, part.key);
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
  return calls_.Barrier();
}

}  // namespace

MadeCommunicator CreateMpiCommunicator(Setup setup) {
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(Annotate(StartMpi(setup.world, setup.deadline), "comm_backend mpi")));
  auto made = std::make_unique<MpiCommunicator>(setup);
  DISTILL_RETURN_IF_ERROR(made->Start(std::move(setup.rendezvous), /*comm=*/nullptr));
  return made;
}

}  // namespace distill
