// Open MPI's own collectives: reference and fallback. 16-bit floats travel as float32, which MPI can add, and are
// rounded once. Bytes that are added or multiplied travel as 32-bit integers and are cut to 8 bits in the end: Open MPI
// 4.1 adds uint8 with saturation where the CPU has AVX, and sums here wrap (communicator.h). What goes through MPI in
// one call is bounded, so that its int counts suffice. Before each collective the ranks tell each other which one they
// make: MPI itself may crash, wait for ever or add the wrong numbers where they differ.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "libdistill/comm/mpi_calls.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/comm/same_calls.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/mpi_runtime.h"

namespace distill {
namespace {

constexpr int64_t kDirectElements = int64_t{64} << 20;
constexpr int64_t kStagedElements = int64_t{1} << 20;  // over all ranks' blocks

// The type that MPI reduces for us.
DType WireType(DType dtype, ReduceOp op) {
  if (SizeOf(dtype) == 2) return DType::kFloat32;
  const bool wraps = op != ReduceOp::kMin && op != ReduceOp::kMax;
  return dtype == DType::kUInt8 && wraps ? DType::kInt32 : dtype;
}

// `count` values of `dtype` of the caller's buffer into one of MPI's, which holds values of `wire`.
void ToWire(const char* in, char* out, int64_t count, DType dtype, DType wire) {
  if (SizeOf(dtype) == 2) return WidenToFloat(in, reinterpret_cast<float*>(out), count, dtype);
  if (wire == dtype) {
    std::memcpy(out, in, static_cast<size_t>(count * SizeOf(dtype)));
  } else {
    std::copy_n(reinterpret_cast<const uint8_t*>(in), count, reinterpret_cast<int32_t*>(out));
  }
}

// And back: floats are rounded once, integers wrap.
void FromWire(const char* in, char* out, int64_t count, DType dtype, DType wire) {
  if (SizeOf(dtype) == 2) return NarrowFromFloat(reinterpret_cast<const float*>(in), out, count, dtype);
  if (wire == dtype) {
    std::memcpy(out, in, static_cast<size_t>(count * SizeOf(dtype)));
  } else {
    std::transform(reinterpret_cast<const int32_t*>(in), reinterpret_cast<const int32_t*>(in) + count,
                   reinterpret_cast<uint8_t*>(out), [](int32_t sum) { return static_cast<uint8_t>(sum); });
  }
}

class MpiCommunicator : public CommBackend {
 public:
  explicit MpiCommunicator(const Setup& setup)
      : CommBackend(setup), seed_(setup), own_(std::make_shared<Own>()), calls_(*this, setup.options.timeout, own_) {}
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
  absl::Status Execute(const CommCall& call) override;
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override;

 private:
  // What MPI reads and writes beside the caller's buffers.
  struct Own {
    MessageHeader header = {};
    ShownCall shown = {};
    std::vector<ShownCall> all_shown;
    std::vector<char> staged;
    std::vector<char> result;
  };
  // Begins a collective. FailedPrecondition: ranks make different ones; with both views.
  absl::Status Begin(const CommCall& call);
  // On the caller's own buffers, a part of a bounded length at a time.
  absl::Status Direct(const CommCall& call);
  // Through `staged` and `result`: MPI gets and gives a part of every block.
  absl::Status Staged(const CommCall& call);
  absl::Status Move(const CommCall& call);
  // Divides what was summed, where the operation asks for it.
  void Finish(void* data, int64_t count, DType dtype, ReduceOp op) const;

  const SplitSeed seed_;
  const std::shared_ptr<Own> own_;
  MpiCalls calls_;
};

absl::Status MpiCommunicator::Execute(const CommCall& call) {
  if (IsPair(call.operation)) return Move(call);
  DISTILL_RETURN_IF_ERROR(Begin(call));
  if (call.operation == CommOperation::kBarrier) return calls_.Make(call);
  const bool direct = call.operation == CommOperation::kBroadcast ||
                      (call.operation == CommOperation::kAllReduce && WireType(call.dtype, call.op) == call.dtype);
  return direct ? Direct(call) : Staged(call);
}

absl::Status MpiCommunicator::Begin(const CommCall& call) {
  calls_.StartCall();
  own_->shown = ShownCall::Of(call);
  own_->all_shown.resize(static_cast<size_t>(world_size()));
  DISTILL_RETURN_IF_ERROR(calls_.Make({.operation = CommOperation::kAllGather,
                                       .input = &own_->shown,
                                       .output = own_->all_shown.data(),
                                       .count = sizeof(ShownCall)},
                                      "comparing the calls (MPI_Iallgather)"));
  return CompareCalls(*this, own_->all_shown);
}

void MpiCommunicator::Finish(void* data, int64_t count, DType dtype, ReduceOp op) const {
  const void* sources[] = {data};
  if (op == ReduceOp::kAverage) distill::Reduce(data, sources, 1, count, dtype, op, world_size());
}

absl::Status MpiCommunicator::Direct(const CommCall& call) {
  CommCall part = call;
  if (!Reduces(call.operation)) part.dtype = DType::kUInt8;  // bytes, whatever they are
  const int64_t size = SizeOf(part.dtype);
  const int64_t count = call.bytes() / size;
  if (call.input != call.output) std::memcpy(call.output, call.input, static_cast<size_t>(call.bytes()));
  for (int64_t begin = 0; begin < count; begin += kDirectElements) {
    part.count = std::min(kDirectElements, count - begin);
    part.output = call.out() + begin * size;
    part.input = part.output;
    DISTILL_RETURN_IF_ERROR(calls_.Make(part));
    if (Reduces(call.operation)) Finish(part.output, part.count, part.dtype, part.op);
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::Staged(const CommCall& call) {
  const bool reduces = Reduces(call.operation);
  const DType dtype = reduces ? call.dtype : DType::kUInt8;
  const DType wire = reduces ? WireType(dtype, call.op) : dtype;
  const int64_t size = SizeOf(dtype), wire_size = SizeOf(wire);
  const int64_t count = call.bytes() / size;
  const int in_blocks = call.input_blocks(world_size()), out_blocks = call.output_blocks(world_size());
  const int64_t bound = (reduces ? 1 : 4) * kStagedElements / call.blocks(world_size());
  const int64_t per_call = std::max<int64_t>(1, std::min(count, bound));
  const bool in_place = call.blocks(world_size()) == 1;
  own_->staged.resize(static_cast<size_t>(in_blocks * per_call * wire_size));
  if (!in_place) own_->result.resize(static_cast<size_t>(out_blocks * per_call * wire_size));
  CommCall part = call;
  part.dtype = wire;
  part.input = own_->staged.data();
  part.output = in_place ? own_->staged.data() : own_->result.data();
  const bool takes = call.operation != CommOperation::kReduce || rank() == call.root;
  for (int64_t begin = 0; begin < count; begin += per_call) {
    part.count = std::min(per_call, count - begin);
    for (int64_t b = 0; b < in_blocks; ++b) {
      ToWire(call.in() + (b * count + begin) * size, own_->staged.data() + b * part.bytes(), part.count, dtype, wire);
    }
    DISTILL_RETURN_IF_ERROR(calls_.Make(part));
    if (!takes) continue;
    // Floats are divided before they are rounded, integers after they have wrapped.
    if (reduces && wire == DType::kFloat32) Finish(part.output, part.count, wire, call.op);
    for (int64_t b = 0; b < out_blocks; ++b) {
      FromWire(part.out() + b * part.bytes(), call.out() + (b * count + begin) * size, part.count, dtype, wire);
    }
    if (reduces && wire != DType::kFloat32) Finish(call.out() + begin * size, part.count, dtype, call.op);
  }
  return absl::OkStatus();
}

// Behind a header that says what the message is.
absl::Status MpiCommunicator::Move(const CommCall& call) {
  const bool sends = call.operation == CommOperation::kSend;
  const MessageHeader expected = MessageHeader::Of(call);
  own_->header = expected;
  CommCall part = {.operation = call.operation, .count = sizeof(MessageHeader), .peer = call.peer};
  part.input = part.output = &own_->header;
  DISTILL_RETURN_IF_ERROR(calls_.Make(part));
  if (!sends) {
    DISTILL_RETURN_IF_ERROR(CompareMessages(own_->header, Describe(call.peer), expected, Describe(rank())));
  }
  for (int64_t begin = 0; begin < call.bytes(); begin += kDirectElements) {
    part.count = std::min(kDirectElements, call.bytes() - begin);
    part.input = sends ? call.in() + begin : nullptr;
    part.output = sends ? nullptr : call.out() + begin;
    DISTILL_RETURN_IF_ERROR(calls_.Make(part));
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
    if (setup.world.world_size == 1) return CreateAloneBackend();
    auto made = std::make_unique<MpiCommunicator>(setup);
    DISTILL_RETURN_IF_ERROR(made->Start(std::move(setup.rendezvous), *split));
    return made;
  };
  return SplitFrom(*this, seed_, part.members, create);
}

}  // namespace

MadeCommunicator CreateMpiCommunicator(Setup setup) {
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(Annotate(StartMpi(setup.world, setup.deadline), "comm_backend mpi")));
  auto made = std::make_unique<MpiCommunicator>(setup);
  DISTILL_RETURN_IF_ERROR(made->Start(std::move(setup.rendezvous), /*comm=*/nullptr));
  return made;
}

}  // namespace distill
