#include "libdistill/train/tensor_collectives.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <functional>

#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/convert.h"

namespace distill {
namespace {

using Call = std::function<absl::Status(void* data, int64_t count, DType dtype, Placement placement)>;

absl::Status OnTensor(Communicator& comm, torch::Tensor& tensor, const Call& call) {
  TORCH_CHECK(tensor.is_contiguous(), "collectives take contiguous tensors");
  DISTILL_ASSIGN_OR_RETURN(const DType dtype, FromTorch(tensor.scalar_type()));
  if (tensor.is_cpu()) return call(tensor.data_ptr(), tensor.numel(), dtype, {});
  if (comm.takes_device_memory()) {
    const c10::impl::VirtualGuardImpl device(tensor.device().type());
    const c10::Stream stream = device.getStream(tensor.device());
    Placement placement{.on_device = true, .stream = stream.native_handle()};
    return call(tensor.data_ptr(), tensor.numel(), dtype, placement);
  }
  torch::Tensor host = tensor.cpu();
  DISTILL_RETURN_IF_ERROR(call(host.data_ptr(), host.numel(), dtype, {}));
  tensor.copy_(host);
  return absl::OkStatus();
}

}  // namespace

absl::Status AllReduceSum(Communicator& comm, torch::Tensor tensor) {
  if (comm.world_size() == 1) return absl::OkStatus();
  return OnTensor(comm, tensor, [&](void* data, int64_t count, DType dtype, Placement placement) {
    return comm.AllReduce(data, data, count, dtype, ReduceOp::kSum, placement);
  });
}

absl::Status BroadcastFromRank0(Communicator& comm, torch::Tensor tensor) {
  if (comm.world_size() == 1) return absl::OkStatus();
  return OnTensor(comm, tensor, [&](void* data, int64_t count, DType dtype, Placement placement) {
    return comm.Broadcast(data, count, dtype, /*root=*/0, placement);
  });
}

}  // namespace distill
