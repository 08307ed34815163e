#include "libdistill/comm/communicator.h"

#include "absl/strings/str_cat.h"
#include "libdistill/comm/call.h"

namespace distill {

std::string Communicator::Describe(int rank) const {
  return names_.empty() ? absl::StrCat("rank ", rank) : names_[static_cast<size_t>(rank)];
}

absl::Status Communicator::AllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                     Placement placement) {
  return Run({CommOperation::kAllReduce, send, receive, count, dtype, placement, op});
}

absl::Status Communicator::ReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                         Placement placement) {
  return Run({CommOperation::kReduceScatter, send, receive, count, dtype, placement, op});
}

absl::Status Communicator::AllGather(const void* send, void* receive, int64_t count, DType dtype, Placement placement) {
  return Run({CommOperation::kAllGather, send, receive, count, dtype, placement});
}

absl::Status Communicator::Broadcast(void* buffer, int64_t count, DType dtype, int root, Placement placement) {
  return Run({CommOperation::kBroadcast, buffer, buffer, count, dtype, placement, ReduceOp::kSum, root});
}

absl::Status Communicator::Reduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op, int root,
                                  Placement placement) {
  return Run({CommOperation::kReduce, send, root == rank_ ? receive : nullptr, count, dtype, placement, op, root});
}

absl::Status Communicator::AllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement placement) {
  return Run({CommOperation::kAllToAll, send, receive, count, dtype, placement});
}

absl::Status Communicator::Barrier() { return Run({.operation = CommOperation::kBarrier}); }

absl::Status Communicator::Send(const void* data, int64_t count, DType dtype, int peer, Placement placement) {
  return Run({CommOperation::kSend, data, nullptr, count, dtype, placement, ReduceOp::kSum, 0, peer});
}

absl::Status Communicator::Receive(void* data, int64_t count, DType dtype, int peer, Placement placement) {
  return Run({CommOperation::kReceive, nullptr, data, count, dtype, placement, ReduceOp::kSum, 0, peer});
}

}  // namespace distill
