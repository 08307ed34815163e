// What the calls of a communicator take, and what names one in an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libdistill/core/dtype.h"

namespace distill {

enum class ReduceOp : uint8_t { kSum, kAverage, kMin, kMax, kProduct };
const char* NameOf(ReduceOp op);

// Where a collective's buffers live and on which queue it runs. The default is host memory.
struct Placement {
  bool on_device = false;
  // A cudaStream_t: the call comes after what is enqueued there and before what will be. Like every call it returns
  // when this rank's part is done, so that a rank that is lost is this call's error and no stream hangs.
  void* stream = nullptr;
};

// Who is in one color of a Split.
struct SplitPart {
  int color = -1;
  int key = 0;
  int rank = 0;              // of this process, in the part
  std::vector<int> members;  // their ranks in the parent, in their new order; empty for a color below 0
};

// "send to" rank 2, the 3rd message to it; or "barrier", the 7th collective.
struct CommCall {
  const char* operation = nullptr;  // lasts for ever
  int peer = -1;                    // the one other rank that it concerns; -1: it concerns all
  int64_t number = 0;
  // What else the ranks must agree on; below 0 where the operation has none.
  int64_t count = -1;
  DType dtype = DType::kUInt8;
  int op = -1;  // a ReduceOp
  int root = -1;
  bool operator==(const CommCall&) const = default;
};

// "all-reduce of 10 float32 (sum)", "broadcast of 3 int64 from rank 2".
std::string DescribeWhat(const CommCall& call);
// Of what DescribeWhat says: differs, as good as always, where the ranks would have to agree and do not.
uint32_t FingerprintOf(const CommCall& call);

}  // namespace distill
