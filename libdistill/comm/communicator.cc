#include "libdistill/comm/communicator.h"

#include "absl/strings/str_cat.h"
#include "libdistill/comm/call.h"

namespace distill {

std::string Communicator::Describe(int rank) const {
  return names_.empty() ? absl::StrCat("rank ", rank) : names_[static_cast<size_t>(rank)];
}

absl::Status Communicator::AllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                     Placement placement) {
  return Run({.operation = CommOperation::kAllReduce,
              .input = send,
              .output = receive,
              .count = count,
              .dtype = dtype,
              .op = op,
              .placement = placement});
}

absl::Status Communicator::ReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                         Placement placement) {
  return Run({.operation = CommOperation::kReduceScatter,
              .input = send,
              .output = receive,
              .count = count,
              .dtype = dtype,
              .op = op,
              .placement = placement});
}

absl::Status Communicator::AllGather(const void* send, void* receive, int64_t count, DType dtype, Placement placement) {
  return Run({.operation = CommOperation::kAllGather,
              .input = send,
              .output = receive,
              .count = count,
              .dtype = dtype,
              .placement = placement});
}

absl::Status Communicator::Broadcast(void* buffer, int64_t count, DType dtype, int root, Placement placement) {
  return Run({.operation = CommOperation::kBroadcast,
              .input = buffer,
              .output = buffer,
              .count = count,
              .dtype = dtype,
              .root = root,
              .placement = placement});
}

absl::Status Communicator::Reduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op, int root,
                                  Placement placement) {
  return Run({.operation = CommOperation::kReduce,
              .input = send,
              .output = root == rank_ ? receive : nullptr,
              .count = count,
              .dtype = dtype,
              .op = op,
              .root = root,
              .placement = placement});
}

absl::Status Communicator::AllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement placement) {
  return Run({.operation = CommOperation::kAllToAll,
              .input = send,
              .output = receive,
              .count = count,
              .dtype = dtype,
              .placement = placement});
}

absl::Status Communicator::Barrier() { return Run({.operation = CommOperation::kBarrier}); }

absl::Status Communicator::Send(const void* data, int64_t count, DType dtype, int peer, Placement placement) {
  return Run({.operation = CommOperation::kSend,
              .input = data,
              .count = count,
              .dtype = dtype,
              .peer = peer,
              .placement = placement});
}

absl::Status Communicator::Receive(void* data, int64_t count, DType dtype, int peer, Placement placement) {
  return Run({.operation = CommOperation::kReceive,
              .output = data,
              .count = count,
              .dtype = dtype,
              .peer = peer,
              .placement = placement});
}

}  // namespace distill
