#include "libdistill/train/spread_tensor.h"

#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/train/tensor_collectives.h"

namespace distill {
namespace {

// From rank `from` to rank `to`, which have it in host memory.
absl::Status Move(Communicator& comm, void* data, int64_t count, DType dtype, int from, int to) {
  if (count == 0) return absl::OkStatus();
  if (comm.rank() == from) return comm.Send(data, count, dtype, to);
  if (comm.rank() == to) return comm.Receive(data, count, dtype, from);
  return absl::OkStatus();
}

torch::Tensor PartOf(const torch::Tensor& whole, const ShardPlan::Part& part) {
  return whole.view({-1}).narrow(0, part.begin, part.count);
}

}  // namespace

absl::StatusOr<torch::Tensor> GatherOnRank0(Communicator& comm, const SpreadTensor& tensor) {
  if (tensor.parts.empty()) return comm.rank() == 0 ? tensor.mine : torch::Tensor();
  DISTILL_ASSIGN_OR_RETURN(const DType dtype, FromTorch(tensor.mine.scalar_type()));
  torch::Tensor mine, whole;
  // Ranks must not wait for one that has no memory for this.
  DISTILL_RETURN_IF_ERROR(Agree(comm, CatchTorch([&] {
                                  mine = tensor.mine.cpu();
                                  if (comm.rank() != 0) return absl::OkStatus();
                                  whole = torch::empty(tensor.shape, mine.options());
                                  PartOf(whole, tensor.parts[0]).copy_(mine);
                                  return absl::OkStatus();
                                })));
  if (comm.rank() != 0) {
    DISTILL_RETURN_IF_ERROR(Move(comm, mine.data_ptr(), mine.numel(), dtype, comm.rank(), 0));
    return torch::Tensor();
  }
  for (int rank = 1; rank < comm.world_size(); ++rank) {
    const ShardPlan::Part& part = tensor.parts[rank];
    DISTILL_RETURN_IF_ERROR(Move(comm, PartOf(whole, part).data_ptr(), part.count, dtype, rank, 0));
  }
  return whole;
}

absl::Status SpreadFromRank0(Communicator& comm, const torch::Tensor& whole, const SpreadTensor& tensor) {
  if (tensor.parts.empty()) {
    if (comm.rank() == 0 && !whole.is_same(tensor.mine)) torch::Tensor(tensor.mine).copy_(whole);
    return BroadcastFromRank0(comm, tensor.mine);
  }
  DISTILL_ASSIGN_OR_RETURN(const DType dtype, FromTorch(tensor.mine.scalar_type()));
  torch::Tensor mine = tensor.mine, host;
  DISTILL_RETURN_IF_ERROR(Agree(comm, CatchTorch([&] {
                                  const bool has_whole = comm.rank() == 0;
                                  host = has_whole ? whole.cpu().contiguous()
                                                   : torch::empty(mine.sizes(), mine.options().device(torch::kCPU));
                                  return absl::OkStatus();
                                })));
  if (comm.rank() != 0) {
    DISTILL_RETURN_IF_ERROR(Move(comm, host.data_ptr(), host.numel(), dtype, 0, comm.rank()));
    mine.copy_(host);
    return absl::OkStatus();
  }
  for (int rank = 1; rank < comm.world_size(); ++rank) {
    const ShardPlan::Part& part = tensor.parts[rank];
    DISTILL_RETURN_IF_ERROR(Move(comm, PartOf(host, part).data_ptr(), part.count, dtype, 0, rank));
  }
  mine.copy_(PartOf(host, tensor.parts[0]));
  return absl::OkStatus();
}

}  // namespace distill
