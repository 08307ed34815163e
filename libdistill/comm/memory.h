// Buffers that a communicator uses without a copy; Communicator::Allocate makes them.
#pragma once

#include <cstdint>

namespace distill {

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
