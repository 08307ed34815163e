// One call of a communicator, as its backend gets it: the operation with its buffers. Internal to comm/.
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/comm/memory.h"
#include "libdistill/comm/reduce_op.h"
#include "libdistill/core/dtype.h"

namespace distill {

enum class CommOperation : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kBarrier,
  kSend,
  kReceive,
  kAllocate,  // Communicator::Allocate, which backends are not given as a call
};

// "all-reduce", "send to", ...
const char* NameOf(CommOperation operation);
// Send and Receive concern one other rank; all other operations are collectives.
constexpr bool IsPair(CommOperation operation) {
  return operation == CommOperation::kSend || operation == CommOperation::kReceive;
}
constexpr bool Reduces(CommOperation operation) {
  return operation == CommOperation::kAllReduce || operation == CommOperation::kReduceScatter ||
         operation == CommOperation::kReduce;
}
constexpr bool HasRoot(CommOperation operation) {
  return operation == CommOperation::kBroadcast || operation == CommOperation::kReduce;
}

// All that the ranks must pass alike; what an operation does not have is as here.
struct CallSignature {
  CommOperation operation = CommOperation::kBarrier;
  DType dtype = DType::kUInt8;
  ReduceOp op = ReduceOp::kSum;
  int32_t root = 0;
  int64_t count = 0;
  bool operator==(const CallSignature&) const = default;
};

// "all-reduce of 10 float32 (sum)", "broadcast of 3 int64 from rank 2".
std::string Describe(const CallSignature& signature);
// Of what Describe says: differs, as good as always, where the ranks would have to agree and do not.
uint32_t FingerprintOf(const CallSignature& signature);

struct CommCall {
  CommOperation operation = CommOperation::kBarrier;
  // Null where the operation reads or writes none: Send writes none, Receive reads none, Barrier neither; Reduce writes
  // on the root alone. A broadcast's buffer is both.
  const void* input = nullptr;
  void* output = nullptr;
  int64_t count = 0;  // elements, of one block where a buffer holds one for each rank
  DType dtype = DType::kUInt8;
  Placement placement = {};
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  int peer = -1;       // whom Send and Receive concern
  int64_t number = 0;  // of the collectives of this rank, or of its messages to or from the peer: from 1
  // Elements from the begin of one rank's block to that of the next in a reduce-scatter's input or an all-gather's
  // output: at least `count`; 0: as many. For backends that take strides (CommBackend) alone.
  int64_t stride = 0;

  const char* in() const { return static_cast<const char*>(input); }
  char* out() const { return static_cast<char*>(output); }
  int64_t bytes() const { return count * SizeOf(dtype); }
  int64_t stride_bytes() const { return (stride == 0 ? count : stride) * SizeOf(dtype); }
  // How many times `count` elements the input and the output hold, among so many ranks.
  int input_blocks(int ranks) const {
    return operation == CommOperation::kReduceScatter || operation == CommOperation::kAllToAll ? ranks : 1;
  }
  int output_blocks(int ranks) const {
    return operation == CommOperation::kAllGather || operation == CommOperation::kAllToAll ? ranks : 1;
  }
  // Of the longer one of the two.
  int blocks(int ranks) const { return operation == CommOperation::kAllGather ? ranks : input_blocks(ranks); }
  // What a sum over so many ranks is divided by.
  int divisor(int ranks) const { return op == ReduceOp::kAverage ? ranks : 1; }
  CallSignature signature() const;
};

}  // namespace distill
