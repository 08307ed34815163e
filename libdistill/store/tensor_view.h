// A tensor's bytes, as files hold them and take them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "libdistill/core/dtype.h"

namespace distill {

struct TensorView {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape = {};
  const void* data = nullptr;  // in row-major order; null where only type, shape and size are told
  int64_t size_bytes = 0;
  std::shared_ptr<const void> owner = nullptr;  // keeps `data` alive; null where somebody else does
};

}  // namespace distill
