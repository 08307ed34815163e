#include "libdistill/comm/communicator.h"

#include "absl/strings/str_cat.h"
#include "libdistill/comm/call.h"

namespace distill {
namespace {

CommCall CallOf(CommOperation operation, const void* input, void* output, int64_t count, DType dtype,
                Placement placement) {
  return {
      .operation = operation, .input = input, .output = output, .count = count, .dtype = dtype, .placement = placement};
}

}  // namespace

std::string Communicator::Describe(int rank) const {
  return names_.empty() ? absl::StrCat("rank ", rank) : names_[static_cast<size_t>(rank)];
}

absl::Status Communicator::AllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                     Placement placement) {
  CommCall call = CallOf(CommOperation::kAllReduce, send, receive, count, dtype, placement);
  call.op = op;
  return Run(call);
}

absl::Status Communicator::ReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                         Placement placement) {
  CommCall call = CallOf(CommOperation::kReduceScatter, send, receive, count, dtype, placement);
  call.op = op;
  return Run(call);
}

absl::Status Communicator::AllGather(const void* send, void* receive, int64_t count, DType dtype, Placement placement) {
  return Run(CallOf(CommOperation::kAllGather, send, receive, count, dtype, placement));
}

absl::Status Communicator::Broadcast(void* buffer, int64_t count, DType dtype, int root, Placement placement) {
  CommCall call = CallOf(CommOperation::kBroadcast, buffer, buffer, count, dtype, placement);
  call.root = root;
  return Run(call);
}

absl::Status Communicator::Reduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op, int root,
                                  Placement placement) {
  CommCall call = CallOf(CommOperation::kReduce, send, root == rank_ ? receive : nullptr, count, dtype, placement);
  call.op = op;
  call.root = root;
  return Run(call);
}

absl::Status Communicator::AllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement placement) {
  return Run(CallOf(CommOperation::kAllToAll, send, receive, count, dtype, placement));
}

absl::Status Communicator::Barrier() { return Run({.operation = CommOperation::kBarrier}); }

absl::Status Communicator::Send(const void* data, int64_t count, DType dtype, int peer, Placement placement) {
  CommCall call = CallOf(CommOperation::kSend, data, nullptr, count, dtype, placement);
  call.peer = peer;
  return Run(call);
}

absl::Status Communicator::Receive(void* data, int64_t count, DType dtype, int peer, Placement placement) {
  CommCall call = CallOf(CommOperation::kReceive, nullptr, data, count, dtype, placement);
  call.peer = peer;
  return Run(call);
}

}  // namespace distill
