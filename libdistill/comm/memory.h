// Where the buffers of collectives lie, and those that Communicator::Allocate makes.
#pragma once

#include <cstdint>

namespace distill {

// Where a call's buffers live and on which queue it runs. The default is host memory.
struct Placement {
  bool on_device = false;
  // A cudaStream_t: the call comes after what is enqueued there and before what will be. Like every call it returns
  // when this rank's part is done, so that a rank that is lost is this call's error and no stream hangs.
  void* stream = nullptr;
};

// Memory that collectives use where it lies, without a copy on the way: mapped by every rank of the host, registered
// with the fabric, or NCCL's own. Zeroed, aligned to a page. Any part of it may be a buffer of a call.
// Memory of a GPU is an address for the device alone.
class CommMemory {
 public:
  virtual ~CommMemory() = default;
  CommMemory(const CommMemory&) = delete;
  CommMemory& operator=(const CommMemory&) = delete;
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 protected:
  CommMemory(char* data, int64_t bytes) : data_(data), bytes_(bytes) {}

 private:
  char* const data_;
  const int64_t bytes_;
};

}  // namespace distill
