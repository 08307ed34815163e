// Buffers in device memory in two levels: NCCL inside the host; across, a lane's piece of a segment goes through pinned
// host memory, with copies on a stream of their own, so that they, NCCL and the wire work at the same time on different
// segments. Calls other than the all-reduce go through host memory as a whole.
#include <algorithm>
#include <vector>

#include "libdistill/comm/hierarchical_communicator.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::Status HierarchicalCommunicator::OpenStage() {
  if (stage_ != nullptr) return absl::OkStatus();
  const int64_t slot_bytes = kLaneSegmentBytes + lanes_ * int64_t{sizeof(double)};
  DISTILL_ASSIGN_OR_RETURN(stage_, DeviceStage::Create(seed_.options.device_index, slot_bytes, seed_.options.timeout));
  return absl::OkStatus();
}

absl::Status HierarchicalCommunicator::AllReduceOnDevice(const LaneCut& cut, const char* send, char* receive,
                                                         DType dtype, ReduceOp op, Placement placement) {
  DISTILL_RETURN_IF_ERROR(OpenStage());
  const bool carries = Carries(cut.lanes);
  const auto piece = [&](int64_t k) { return receive + (carries ? cut.PieceBegin(k, local_rank()) : 0) * cut.size; };
  const auto length = [&](int64_t k) { return cut.PieceLength(k, local_rank()); };
  const auto before = [&](int64_t k) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(ReduceToLanes(cut, k, send, piece(k), dtype, op, placement));
    return carries ? stage_->CopyOut(k, piece(k), length(k) * cut.size) : absl::OkStatus();
  };
  const auto across = [&](int64_t k) -> absl::Status {
    if (!carries) return absl::OkStatus();
    DISTILL_RETURN_IF_ERROR(stage_->Await(k));
    char* slot = stage_->slot(k);
    const ReduceOp inner = op == ReduceOp::kAverage ? ReduceOp::kSum : op;
    DISTILL_RETURN_IF_ERROR(lane_->AllReduce(slot, slot, length(k), dtype, inner));
    Divide(slot, length(k), dtype, op);
    return stage_->CopyIn(piece(k), k, length(k) * cut.size);
  };
  const auto after = [&](int64_t k) -> absl::Status {
    if (carries) DISTILL_RETURN_IF_ERROR(stage_->Await(k));
    return SpreadFromLanes(cut, k, receive, dtype, placement);
  };
  return Pipeline(cut.segments, {before, across, after});
}

absl::Status HierarchicalCommunicator::ThroughHost(
    const void* send, int64_t send_bytes, void* receive, int64_t receive_bytes, Placement placement,
    absl::FunctionRef<absl::Status(const void* send, void* receive)> call) {
  DISTILL_RETURN_IF_ERROR(OpenStage());
  // A call that takes or gives nothing here still wants a place.
  std::vector<char> in(static_cast<size_t>(std::max<int64_t>(send_bytes, 1)));
  std::vector<char> out(static_cast<size_t>(std::max<int64_t>(receive_bytes, 1)));
  if (send_bytes > 0) DISTILL_RETURN_IF_ERROR(stage_->Copy(in.data(), send, send_bytes, placement.stream));
  DISTILL_RETURN_IF_ERROR(call(in.data(), out.data()));
  return receive_bytes > 0 ? stage_->Copy(receive, out.data(), receive_bytes, placement.stream) : absl::OkStatus();
}

}  // namespace distill
