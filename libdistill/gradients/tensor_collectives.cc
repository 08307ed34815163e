#include "libdistill/gradients/tensor_collectives.h"

#include <utility>

#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {
namespace {

using Call = std::function<absl::Status(torch::Tensor& tensor, Placement placement)>;

// On several ranks: calls with a contiguous tensor in memory that the communicator takes, and brings the result back.
absl::Status OnTensor(Communicator& comm, torch::Tensor& tensor, const Call& call) {
  if (comm.world_size() == 1) return absl::OkStatus();
  const bool stays = tensor.is_cpu() || comm.takes_device_memory();
  torch::Tensor there = (stays ? tensor : tensor.cpu()).contiguous();
  Placement placement;
  if (!there.is_cpu()) {
    placement = {.on_device = true, .stream = CurrentStream(there.device()).native_handle()};
  }
  DISTILL_RETURN_IF_ERROR(call(there, placement));
  if (!there.is_same(tensor)) tensor.copy_(there);
  return absl::OkStatus();
}

}  // namespace

absl::Status OrAbort(Communicator& comm, absl::FunctionRef<absl::Status()> body) {
  absl::Status returned;
  const absl::Status thrown = CatchTorch([&] { returned = body(); });
  if (thrown.ok()) return returned;
  comm.Abort(thrown);
  return thrown;
}

std::function<absl::Status(Communicator&)> BehindStream(std::shared_ptr<const HeldStream> stream,
                                                        std::function<absl::Status(Communicator&)> body) {
  std::shared_ptr<const c10::Event> ready;
  const absl::Status recorded = CatchTorch([&] {
    if (stream->stream().has_value()) ready = std::make_shared<const c10::Event>(RecordEvent(stream->device()));
  });
  return [ready, recorded, stream = std::move(stream), body = std::move(body)](Communicator& comm) {
    return OrAbort(comm, [&]() -> absl::Status {
      if (!recorded.ok()) throw StatusError(recorded);
      if (ready == nullptr) return body(comm);
      const OwnStream own(*stream->stream(), *ready);
      DISTILL_RETURN_IF_ERROR(body(comm));
      own.Synchronize();
      return absl::OkStatus();
    });
  };
}

absl::Status AllReduceSum(Communicator& comm, torch::Tensor tensor) {
  return OnTensor(comm, tensor, [&](torch::Tensor& there, Placement placement) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const DType dtype, FromTorch(there.scalar_type()));
    return comm.AllReduce(there.data_ptr(), there.data_ptr(), there.numel(), dtype, ReduceOp::kSum, placement);
  });
}

absl::Status ReduceScatterSum(Communicator& comm, torch::Tensor padded) {
  return OnTensor(comm, padded, [&](torch::Tensor& there, Placement placement) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const DType dtype, FromTorch(there.scalar_type()));
    const int64_t slice = there.numel() / comm.world_size();
    auto* bytes = static_cast<char*>(there.data_ptr());
    return comm.ReduceScatter(bytes, bytes + comm.rank() * slice * SizeOf(dtype), slice, dtype, ReduceOp::kSum,
                              placement);
  });
}

absl::Status AllGatherSlices(Communicator& comm, torch::Tensor padded) {
  return OnTensor(comm, padded, [&](torch::Tensor& there, Placement placement) {
    const int64_t slice = static_cast<int64_t>(there.nbytes()) / comm.world_size();
    auto* bytes = static_cast<char*>(there.data_ptr());
    return comm.AllGather(bytes + comm.rank() * slice, bytes, slice, DType::kUInt8, placement);
  });
}

absl::Status BroadcastFromRank0(Communicator& comm, torch::Tensor tensor) {
  return OnTensor(comm, tensor, [&](torch::Tensor& there, Placement placement) {
    return comm.Broadcast(there.data_ptr(), static_cast<int64_t>(there.nbytes()), DType::kUInt8, /*root=*/0, placement);
  });
}

}  // namespace distill
