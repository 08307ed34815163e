// Memory for backends that take any pointer as it is. Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "libdistill/comm/memory.h"

namespace distill {

class PlainMemory : public CommMemory {
 public:
  // Zeroed, from the begin of a page on. ResourceExhausted: there is not that much.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CommMemory>> Create(int64_t bytes);
  ~PlainMemory() override;

 private:
  using CommMemory::CommMemory;
};

}  // namespace distill
