// Device memory as NCCL would choose it for its own buffers. Internal to comm/, in builds with CUDA.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "libdistill/comm/memory.h"

namespace distill {

// It is not registered with a communicator (ncclCommRegister): NCCL leaves undefined what a call does where one rank's
// buffers are registered and another's are not, and Communicator::Allocate allows that.
class NcclMemory : public CommMemory {
 public:
  // Zeroed. ResourceExhausted: the device has not that much.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CommMemory>> Create(int device, int64_t bytes);
  ~NcclMemory() override;

 private:
  NcclMemory(int device, char* data, int64_t bytes) : CommMemory(data, bytes), device_(device) {}
  const int device_;
};

}  // namespace distill
