// Where a collective's buffers live and on which queue it runs.
#pragma once

namespace distill {

// The default is host memory.
struct Placement {
  bool on_device = false;
  // A cudaStream_t: the call comes after what is enqueued there and before what will be. Like every call it returns
  // when this rank's part is done, so that a rank that is lost is this call's error and no stream hangs.
  void* stream = nullptr;
};

}  // namespace distill
