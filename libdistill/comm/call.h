// What the calls of a communicator take, and what names one in an error.
#pragma once

#include <cstdint>
#include <optional>
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
  bool operator==(const CommCall&) const = default;
};

// What must be the same on every rank that takes part in a collective.
struct CollectiveCall {
  const char* operation = nullptr;
  int64_t count = 0;  // elements; of an allocation bytes
  DType dtype = DType::kUInt8;
  std::optional<ReduceOp> op = {};
  int root = -1;
};

}  // namespace distill
