#include "libdistill/core/dtype.h"

#include <cstddef>
#include <iterator>

namespace distill {

const char* NameOf(DType dtype) {
  constexpr const char* kNames[] = {"float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"};
  const auto index = static_cast<size_t>(dtype);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

}  // namespace distill
